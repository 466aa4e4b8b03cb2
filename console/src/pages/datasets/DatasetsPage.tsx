/** The datasets: what agents are tried with. */
import { Button, Group, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import type { Schemas } from "../../api/client";
import { CHOICE_PAGE, createDataset, datasetListQuery, evalsQuery, type EvalRecord } from "../../api/evals";
import { datasets as texts } from "../../texts/datasets";
import { demo as demoTexts } from "../../texts/demo";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { FormModal } from "../../ui/FormDialogs";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { isEvalId } from "../../ui/evals/ids";
import { Verdicts } from "../../ui/evals/parts";
import { ShowDemo } from "../../ui/DemoData";
import { Filters, WITH_DEMO } from "../../ui/Filters";
import { formatCount } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Page } from "../../ui/Page";
import { Age } from "../../ui/parts";
import { Refusal } from "../../ui/Problems";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { Tag } from "../../ui/Tag";

type Row = Schemas["DatasetSummary"] & { last: EvalRecord | undefined; /** Its evals, if any, are older than those that were read. */ isOlder: boolean };
const route = getRouteApi("/datasets");
const NEW = "+";

const COLUMNS: readonly DataColumn<Row>[] = [
  { id: "id", header: texts.columns.id, cell: (it) => <><Link to="/datasets/$datasetId" params={{ datasetId: it.id }}>{it.id}</Link>{it.is_demo === true ? <> <Tag>{demoTexts.tag}</Tag></> : null}</>, sortValue: (it) => it.id },
  { id: "description", header: texts.columns.description, cell: (it) => <Text size="sm" lineClamp={2} style={{ overflowWrap: "anywhere" }}><ShownText text={it.description ?? ""} /></Text>, sortValue: (it) => it.description ?? "" },
  { id: "cases", header: texts.columns.cases, cell: (it) => formatCount(it.fixture_count ?? 0), sortValue: (it) => it.fixture_count ?? 0, isRight: true },
  { id: "revision", header: texts.columns.revision, cell: (it) => it.revision, sortValue: (it) => it.revision, isRight: true },
  { id: "evals", header: texts.columns.evals, cell: (it) => (it.last === undefined ? <Text span c="dimmed">{it.isOlder ? texts.olderEval : ui.none}</Text> : <Group gap={8}><Verdicts figures={it.last.summary} /><Text span size="xs" c="dimmed"><Age at={it.last.created_at} /></Text></Group>), sortValue: (it) => it.last?.created_at ?? null },
];

function CreateDialog({ isOpen, taken, onClose }: { isOpen: boolean; taken: readonly string[]; onClose: () => void }) {
  const navigate = useNavigate();
  const [id, setId] = useState("");
  const [about, setAbout] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const problem = !isEvalId(id) ? texts.badId : taken.includes(id) ? texts.taken : undefined;
  const create = async () => {
    if (problem !== undefined || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await createDataset(id, about.trim());
      await navigate({ to: "/datasets/$datasetId", params: { datasetId: id } });
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <FormModal opened={isOpen} onClose={onClose} title={texts.new} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); void create(); }}>
        <Stack gap="sm">
          <TextInput data-autofocus label={texts.id} description={texts.idHelp} required withAsterisk value={id} error={id === "" ? undefined : problem} onChange={(event) => setId(event.currentTarget.value)} />
          <Textarea label={texts.about} value={about} autosize minRows={2} onChange={(event) => setAbout(event.currentTarget.value)} />
          <Refusal error={error} />
          <Group justify="flex-end" gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled" loading={isBusy} disabled={problem !== undefined}>{texts.create}</Button></Group>
        </Stack>
      </form>
    </FormModal>
  );
}

export function DatasetsPage() {
  return <NeedsScope scope="config" isOfConfig={false} title={shell.pages.datasets}><List /></NeedsScope>;
}

function List() {
  const { create, q, demo, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const list = useQuery(datasetListQuery(demo === "true"));
  const { data: evals } = useQuery(evalsQuery(undefined, demo === "true"));
  const rows = useMemo(() => {
    const wanted = q?.toLowerCase() ?? "";
    return (list.data ?? []).filter((it) => `${it.id} ${it.description ?? ""}`.toLowerCase().includes(wanted)).map((it): Row => ({ ...it, last: evals?.find((one) => one.spec.dataset_id === it.id), isOlder: (evals?.length ?? 0) >= CHOICE_PAGE }));
  }, [list.data, evals, q]);
  const make = <GatedButton scope="eval" variant="filled" onClick={() => change({ create: NEW })}>{texts.new}</GatedButton>;
  return (
    <Page title={shell.pages.datasets} description={texts.description}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.data === undefined ? <Loading /> : (
        <DataTable
          label={shell.pages.datasets} rows={rows} columns={COLUMNS} rowId={(it) => it.id} address={{ sort, columns }} onAddress={change}
          onOpen={(it) => void navigate({ to: "/datasets/$datasetId", params: { datasetId: it.id } })}
          toolbar={list.data.length === 0 && demo === undefined ? undefined : <><Filters values={{ q, demo }} onChange={change} text={{ name: "q", placeholder: ui.filter }} choices={[WITH_DEMO]} />{make}</>}
          empty={list.data.length === 0 ? <Empty title={texts.empty} action={<>{make}<ShowDemo onShow={() => change({ demo: "true" })} /></>} command={texts.command}>{texts.emptyHelp}</Empty> : <Empty title={texts.one.noMatch} />}
        />
      )}
      <CreateDialog isOpen={create === NEW} taken={(list.data ?? []).map((it) => it.id)} onClose={() => change({ create: undefined })} />
    </Page>
  );
}
