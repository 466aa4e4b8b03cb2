/** Cases by variants with a mark for each repeat; filters for what changed, flakes, failed or is missing. */
import { SegmentedControl, Select, Group, Table, Text } from "@mantine/core";
import { IconCheck, IconCircleDashed, IconMinus, IconPlayerPause, IconX } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { EvalItem, EvalRecord } from "../../api/evals";
import { evals as texts } from "../../texts/evals";
import { useChangeSearch } from "../../ui/address";
import { buildRows, countRepeats, listScorers, type CaseRow, type Cell, type Look } from "../../ui/evals/cells";
import classes from "../../ui/evals/evals.module.css";
import { Missing } from "../../ui/evals/parts";
import { formatRate } from "../../ui/evals/words";
import { Panel } from "../../ui/Panel";
import { useVirtualRows } from "../../ui/useVirtualRows";
import { ItemDrawer } from "./ItemDrawer";

const route = getRouteApi("/evals/$evalId");
const ICONS: Record<Look, typeof IconCheck> = { passed: IconCheck, failed: IconX, partly: IconMinus, missing: IconPlayerPause, open: IconCircleDashed };
const SHOWN = { all: texts.one.allCases, changed: texts.one.changed, flaky: texts.one.flakyOnly, failed: texts.one.failedOnly, missing: texts.one.missingOnly } as const;
const FILTERS: Record<keyof typeof SHOWN, (row: CaseRow) => boolean> = { all: () => true, changed: (it) => it.isChanged, flaky: (it) => it.isFlaky, failed: (it) => it.hasFailed, missing: (it) => it.hasMissing };
const ROW_PX = 36;

function Dots({ cell, onOpen }: { cell: Cell; onOpen: (item: EvalItem) => void }) {
  return (
    <span className={classes.dots}>
      {cell.looks.map((look, index) => {
        const item = cell.items[index];
        const Icon = ICONS[look];
        const label = texts.one.openSample(cell.variant, index + 1, item === undefined || item.status === "scored" ? texts.one.dots[look] : item.status.replaceAll("_", " "));
        if (item === undefined) return <span key={index} className={classes.dot} data-look={look} role="img" aria-label={label} title={label}><Icon aria-hidden /></span>;
        return <button key={index} type="button" className={classes.dot} data-look={look} aria-label={label} title={label} onClick={() => onOpen(item)}><Icon aria-hidden /></button>;
      })}
      <Text span size="xs" c="dimmed" ml={4} style={{ alignSelf: "center" }}>{cell.rate === null ? <Missing /> : formatRate(cell.rate)}</Text>
    </span>
  );
}

export function ItemMatrix({ record, items }: { record: EvalRecord; items: readonly EvalItem[] }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const { spec } = record;
  const variants = useMemo(() => (spec.variants ?? [{ name: "default" }]).map((it) => it.name), [spec.variants]);
  const scorers = useMemo(() => listScorers(items), [items]);
  const scorer = scorers.find((it) => it === search.scorer);
  const show = (search.show ?? "all") in FILTERS ? ((search.show ?? "all") as keyof typeof SHOWN) : "all";
  const all = useMemo(() => buildRows(items, variants, countRepeats(items, spec.repeats), scorer), [items, variants, spec.repeats, scorer]);
  const rows = useMemo(() => all.filter(FILTERS[show]), [all, show]);
  const open = (item: EvalItem | undefined) => change({ item: item === undefined ? undefined : String(item.number) });
  const { scroller, virtual, current } = useVirtualRows({ rows, rowKey: (it) => it.caseId, rowPx: ROW_PX, overscan: 12, onOpen: (row) => open(row.cells.find((it) => it.items.length > 0)?.items[0]) });
  const shown = virtual.getVirtualItems();
  const before = shown[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (shown.at(-1)?.end ?? 0);
  const actions = (
    <Group gap="xs">
      <SegmentedControl aria-label={texts.one.show} value={show} onChange={(value) => change({ show: value === "all" ? undefined : value })} data={Object.entries(SHOWN).map(([value, label]) => ({ value, label: `${label} (${all.filter(FILTERS[value as keyof typeof SHOWN]).length})` }))} style={{ flexWrap: "wrap" }} />
      <Select aria-label={texts.one.scorerChoice} placeholder={texts.one.anyScorer} data={scorers} clearable value={scorer ?? null} w={200} onChange={(value) => change({ scorer: value ?? undefined })} />
    </Group>
  );
  const chosen = items.find((it) => String(it.number) === search.item);
  return (
    <Panel title={texts.one.cases} actions={items.length === 0 ? undefined : actions} isFlush>
      {rows.length === 0 ? <Text size="sm" c="dimmed" p="sm">{items.length === 0 ? texts.one.noItems : texts.one.noRows}</Text> : (
        <div ref={scroller} className={classes.scroll} style={{ border: 0, maxHeight: "60vh", overflowY: "auto" }} tabIndex={0} role="region" aria-label={texts.tableOf(texts.one.cases)}>
          <Table aria-rowcount={rows.length + 1}>
            <Table.Thead><Table.Tr><Table.Th>{texts.one.case}</Table.Th>{variants.map((it) => <Table.Th key={it}>{it}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>
              {before > 0 ? <tr aria-hidden style={{ height: before }} /> : null}
              {shown.map((place) => {
                const row = rows[place.index];
                if (row === undefined) return null;
                return (
                  <Table.Tr key={row.caseId} data-index={place.index} ref={virtual.measureElement} aria-rowindex={place.index + 2} bg={place.index === current ? "light-dark(var(--mantine-color-gray-1), var(--mantine-color-dark-5))" : undefined}>
                    <Table.Th scope="row" fw={500}><Link to="/datasets/$datasetId" params={{ datasetId: spec.dataset_id }} search={{ case: row.caseId }}>{row.caseId}</Link></Table.Th>
                    {row.cells.map((cell) => <Table.Td key={cell.variant}><Dots cell={cell} onOpen={open} /></Table.Td>)}
                  </Table.Tr>
                );
              })}
              {after > 0 ? <tr aria-hidden style={{ height: after }} /> : null}
            </Table.Tbody>
          </Table>
        </div>
      )}
      <ItemDrawer item={chosen} items={items} datasetId={spec.dataset_id} onOpen={open} />
    </Panel>
  );
}
