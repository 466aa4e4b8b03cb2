/** The waterfall as a table, for readers of screens and for sorting. */
import { UnstyledButton } from "@mantine/core";
import { useMemo } from "react";

import { run as texts } from "../../texts/run";
import { ui } from "../../texts/ui";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { formatCost, formatDuration, formatOffset, formatTokens } from "../../ui/format";
import { Status } from "../../ui/parts";
import type { RunSearch } from "./search";
import { nameSpan } from "./spanText";
import type { SpanRow } from "./waterfall";

type Props = { rows: readonly SpanRow[]; search: RunSearch; onSearch: (change: RunSearch) => void; onOpen: (row: SpanRow) => void };

function countTokens(row: SpanRow): number | null {
  return row.span.tokens == null ? null : row.span.tokens.reduce((sum, it) => sum + it, 0);
}

export function WaterfallTable({ rows, search, onSearch, onOpen }: Props) {
  const columns = useMemo((): DataColumn<SpanRow>[] => {
    const named = texts.waterfall.columns;
    return [
      { id: "name", header: named.name, cell: (it) => <UnstyledButton fz="sm" c="var(--mantine-color-anchor)" pl={it.depth * 14} mih={24} onClick={() => onOpen(it)}>{nameSpan(it.span)}</UnstyledButton> },
      { id: "kind", header: named.kind, cell: (it) => texts.waterfall.kinds[it.span.kind] ?? it.span.kind, sortValue: (it) => it.span.kind },
      { id: "start", header: named.start, cell: (it) => formatOffset(it.start), sortValue: (it) => it.start, isRight: true },
      { id: "took", header: named.took, cell: (it) => (it.isOpen ? texts.waterfall.goesOn : formatDuration(it.end - it.start)), sortValue: (it) => it.end - it.start, isRight: true },
      { id: "outcome", header: named.outcome, cell: (it) => (it.span.outcome == null ? ui.none : <Status value={it.span.outcome === "declined" ? "failed" : it.span.outcome === "resumed" ? "succeeded" : it.span.outcome} label={it.span.outcome} />), sortValue: (it) => it.span.outcome ?? null },
      { id: "first", header: named.first, cell: (it) => (it.span.first_token_ms == null ? ui.none : formatDuration(it.span.first_token_ms)), sortValue: (it) => it.span.first_token_ms ?? null, isRight: true },
      { id: "tokens", header: named.tokens, cell: (it) => (countTokens(it) === null ? ui.none : formatTokens(countTokens(it) ?? 0)), sortValue: countTokens, isRight: true },
      { id: "cost", header: named.cost, cell: (it) => (it.span.cost_nanos == null ? ui.none : formatCost(it.span.cost_nanos)), sortValue: (it) => it.span.cost_nanos ?? null, isRight: true },
    ];
  }, [onOpen]);
  return (
    <DataTable label={texts.waterfall.chart} rows={rows} columns={columns} rowId={(it) => it.key} address={{ sort: search.sort, columns: search.columns }} onAddress={onSearch} onOpen={onOpen} height="calc(100vh - 330px)" />
  );
}
