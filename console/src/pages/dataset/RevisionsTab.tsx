/** The revisions of a dataset: who wrote each, what differs between two, and the way back to one. */
import { Group, Select, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { datasetQuery, replaceDataset, revisionsQuery, type Dataset } from "../../api/evals";
import { queryClient } from "../../api/queries";
import { datasets as texts } from "../../texts/datasets";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import classes from "../../ui/evals/evals.module.css";
import { RecordDiff } from "../../ui/FieldDiff";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Panel } from "../../ui/Panel";
import { Age } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";
import { compareRevisions } from "./cases";

const route = getRouteApi("/datasets/$datasetId");

function RevisionDiff({ id, from, to }: { id: string; from: number; to: number }) {
  const before = useQuery({ ...datasetQuery(id, from), refetchInterval: false });
  const after = useQuery({ ...datasetQuery(id, to), refetchInterval: false });
  const failed = [before, after].find((it) => it.isError);
  if (failed !== undefined) return <Failure error={failed.error} onRetry={() => void failed.refetch()} />;
  if (before.data === undefined || after.data === undefined) return <Loading rows={3} />;
  const changes = compareRevisions(before.data, after.data);
  if (changes.length === 0) return <Text size="sm" c="dimmed">{texts.revisions.same}</Text>;
  return <Stack gap="sm">{changes.map((it) => <RecordDiff key={it.id} record={it} />)}</Stack>;
}

export function RevisionsTab({ dataset }: { dataset: Dataset }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const confirm = useConfirm();
  const list = useQuery(revisionsQuery(dataset.id));
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.data === undefined) return <Loading />;
  const numbers = list.data.filter((it) => it.is_deleted !== true).map((it) => String(it.revision));
  const to = numbers.find((it) => it === search.to) ?? numbers[0] ?? "1";
  const from = numbers.find((it) => it === search.from) ?? numbers[numbers.indexOf(to) + 1] ?? to;
  const restore = async (no: number) => {
    if (!(await confirm({ title: texts.revisions.restoreTitle(no), body: texts.revisions.restoreBody, confirm: texts.revisions.restore }))) return;
    try {
      await replaceDataset(dataset.id, await queryClient.fetchQuery(datasetQuery(dataset.id, no)), dataset.revision);
      noteDone(texts.revisions.restored(no));
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <Stack gap="md">
      <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.one.tabs.revisions}>
        <Table>
          <Table.Thead><Table.Tr>{Object.values(texts.revisions.columns).map((it) => <Table.Th key={it}>{it}</Table.Th>)}<Table.Th><span className="unseen">{texts.revisions.restore}</span></Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {list.data.map((it) => (
              <Table.Tr key={it.revision}>
                <Table.Td>{it.revision}{it.is_deleted === true ? ` · ${texts.revisions.deleted}` : ""}</Table.Td>
                <Table.Td>{it.fixture_count ?? 0}</Table.Td>
                <Table.Td>{it.by || ui.none}</Table.Td>
                <Table.Td><Age at={it.at} /></Table.Td>
                <Table.Td style={{ overflowWrap: "anywhere" }}>{it.description}</Table.Td>
                <Table.Td ta="right">{it.revision === dataset.revision || it.is_deleted === true ? null : <GatedButton scope="eval" variant="subtle" onClick={() => void restore(it.revision)}>{texts.revisions.restore}</GatedButton>}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {numbers.length < 2 ? null : (
        <Panel title={texts.revisions.diff(Number(from), Number(to))} actions={<Group gap="xs"><Select aria-label={texts.revisions.from} data={numbers} value={from} w={90} allowDeselect={false} onChange={(value) => change({ from: value ?? undefined })} /><Select aria-label={texts.revisions.to} data={numbers} value={to} w={90} allowDeselect={false} onChange={(value) => change({ to: value ?? undefined })} /></Group>}>
          <RevisionDiff id={dataset.id} from={Number(from)} to={Number(to)} />
        </Panel>
      )}
    </Stack>
  );
}
