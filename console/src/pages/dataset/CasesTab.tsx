/** The cases of a dataset with what became of them last; as a queue, those that wait for confirmation. */
import { Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { evalsQuery, isOpen, itemsQuery, readInput, replaceDataset, type Case, type Dataset } from "../../api/evals";
import { datasets as texts } from "../../texts/datasets";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { buildRows, type CaseRow } from "../../ui/evals/cells";
import { Missing } from "../../ui/evals/parts";
import { Filters } from "../../ui/Filters";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { ShortId, Status } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty } from "../../ui/states";
import { Tag } from "../../ui/Tag";
import { isWaiting, readTags } from "./cases";

const route = getRouteApi("/datasets/$datasetId");
const SHOWN_CHARS = 160;

/** What the last eval that ended says of each case, by all of its variants. */
function useLastResults(dataset: Dataset): ReadonlyMap<string, CaseRow> {
  const { data: evals } = useQuery(evalsQuery(dataset.id, dataset.isDemo));
  const last = evals?.find((it) => !isOpen(it));
  const { data: items } = useQuery({ ...itemsQuery(last?.eval_id ?? ""), enabled: last !== undefined });
  return useMemo(() => {
    const variants = (last?.spec.variants ?? [{ name: "default" }]).map((it) => it.name);
    return new Map(buildRows(items ?? [], variants, 0).map((it) => [it.caseId, it]));
  }, [items, last]);
}

function LastResult({ row }: { row: CaseRow | undefined }) {
  if (row === undefined) return <Text span size="sm" c="dimmed">{texts.one.never}</Text>;
  const sum = (name: "passed" | "failed" | "missing") => row.cells.reduce((all, it) => all + it[name], 0);
  const [passed, failed, missing] = [sum("passed"), sum("failed"), sum("missing")];
  return (
    <Group gap={6} wrap="nowrap">
      {passed + failed === 0 ? <Missing /> : <Text span size="sm">{texts.one.passedOf(passed, passed + failed)}</Text>}
      {row.isFlaky ? <Tag color="yellow">{texts.one.flaky}</Tag> : null}
      {missing > 0 && passed + failed > 0 ? <Missing>{texts.one.missing(missing)}</Missing> : null}
    </Group>
  );
}

function buildColumns(results: ReadonlyMap<string, CaseRow>, change: (search: { case?: string }) => void): readonly DataColumn<Case>[] {
  const named = texts.one.columns;
  return [
    { id: "case", header: named.case, cell: (it) => <Button variant="transparent" px={0} h={24} onClick={() => change({ case: it.id })}>{it.id}</Button>, sortValue: (it) => it.id },
    { id: "input", header: named.input, cell: (it) => <Text size="sm" lineClamp={2} style={{ overflowWrap: "anywhere" }}><ShownText text={readInput(it).slice(0, SHOWN_CHARS)} /></Text> },
    { id: "tags", header: named.tags, cell: (it) => <Group gap={4}>{readTags(it).map((tag) => <Tag key={tag}>{tag}</Tag>)}</Group>, sortValue: (it) => readTags(it).join() },
    { id: "last", header: named.last, cell: (it) => <LastResult row={results.get(it.id)} />, sortValue: (it) => results.get(it.id)?.cells[0]?.rate ?? null },
    { id: "status", header: named.status, cell: (it) => <Status value={isWaiting(it) ? "waiting" : "ok"} label={isWaiting(it) ? texts.one.draft : texts.one.ready} />, sortValue: (it) => String(it.status ?? "ready") },
    { id: "source", header: named.source, cell: (it) => (typeof it.source_run_id === "string" ? <Link to="/runs/$runId" params={{ runId: it.source_run_id }}><ShortId id={it.source_run_id} /></Link> : texts.one.person) },
    { id: "split", header: named.split, cell: (it) => String(it.split ?? ui.none), isHiddenAtFirst: true },
    { id: "weight", header: named.weight, cell: (it) => String(it.weight ?? 1), isRight: true, isHiddenAtFirst: true },
  ];
}

export function CasesTab({ dataset, isQueue = false }: { dataset: Dataset; isQueue?: boolean }) {
  const { q, tag, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const confirm = useConfirm();
  const results = useLastResults(dataset);
  const shownColumns = useMemo(() => buildColumns(results, change), [results, change]);
  const rows = useMemo(() => {
    const wanted = q?.toLowerCase() ?? "";
    return dataset.cases.filter((it) => (!isQueue || isWaiting(it)) && (tag === undefined || readTags(it).includes(tag)) && `${it.id} ${readInput(it)}`.toLowerCase().includes(wanted));
  }, [dataset.cases, isQueue, q, tag]);
  const write = async (cases: readonly Case[], done: string) => {
    try {
      await replaceDataset(dataset.id, { ...dataset, cases }, dataset.revision);
      noteDone(done);
      return true;
    } catch (error) {
      noteError(error);
      return false;
    }
  };
  const confirmAll = (chosen: readonly Case[]) => write(dataset.cases.map((it) => (chosen.includes(it) ? { ...it, status: "ready" } : it)), texts.one.confirmed(chosen.length));
  const removeAll = async (chosen: readonly Case[]) => {
    if (!(await confirm({ title: texts.one.deleteCases(chosen.length), body: texts.one.deleteCasesBody, confirm: texts.one.deleteSelected, isDangerous: true }))) return false;
    return write(dataset.cases.filter((it) => !chosen.includes(it)), texts.one.deletedCases);
  };
  const tags = [...new Set(dataset.cases.flatMap(readTags))].sort();
  const isFiltered = q !== undefined || tag !== undefined;
  return (
    <>
      {isQueue ? <Text size="sm" c="dimmed" mb="xs">{texts.one.waitingHelp}</Text> : null}
      <DataTable
        label={isQueue ? texts.one.tabs.waiting : texts.one.tabs.cases} rows={rows} columns={shownColumns} rowId={(it) => it.id} address={{ sort, columns }} onAddress={change} onOpen={(it) => change({ case: it.id })}
        selectionActions={(chosen, clear) => (
          <>
            {chosen.some(isWaiting) ? <GatedButton scope="eval" variant="filled" onClick={() => void confirmAll(chosen).then((is) => { if (is) clear(); })}>{texts.one.confirm}</GatedButton> : null}
            <GatedButton scope="eval" onClick={() => void removeAll(chosen).then((is) => { if (is) clear(); })}>{texts.one.deleteSelected}</GatedButton>
          </>
        )}
        toolbar={dataset.cases.length === 0 ? undefined : <Filters values={{ q, tag }} onChange={change} text={{ name: "q", placeholder: texts.one.search }} choices={tags.length === 0 ? [] : [{ name: "tag", label: texts.one.tag, options: tags }]} />}
        empty={isFiltered ? <Empty title={texts.one.noMatch} /> : isQueue ? <Empty title={texts.one.noWaiting}>{texts.one.noWaitingHelp}</Empty> : <Empty title={texts.one.noCases} command={`awaken eval capture RUN ${dataset.id}`}>{texts.one.noCasesHelp}</Empty>}
        height="calc(100vh - 260px)"
      />
    </>
  );
}
