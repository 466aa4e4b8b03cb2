/** The list of every list page: sorting, choice of columns, selection, keys, and only the rows in view are drawn. */
import { Box, Button, Checkbox, Group, Menu, Table, Text, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconColumns3 } from "@tabler/icons-react";
import {
  columnVisibilityFeature, createSortedRowModel, rowSelectionFeature, rowSortingFeature, tableFeatures, useTable,
  type ColumnDef, type RowSelectionState, type SortingState, type ColumnVisibilityState,
} from "@tanstack/react-table";
import { useMemo, useState, type ReactNode } from "react";

import { ui } from "../texts/ui";
import classes from "./DataTable.module.css";
import { useSettings } from "./settings";
import { useVirtualRows } from "./useVirtualRows";

export type DataColumn<Row> = {
  id: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** Makes the column sortable, among the rows that were loaded. */
  sortValue?: (row: Row) => string | number | null;
  width?: number;
  isRight?: boolean;
  /** Its text takes the width that the other columns leave, and is cut there: they stay in sight. */
  isFlexible?: boolean;
  isHiddenAtFirst?: boolean;
};

/** What the address keeps of a table: `sort` is a column's id, with `-` before it downwards; `columns` are those shown. */
export type TableAddress = { sort?: string; columns?: string };

type Props<Row> = {
  label: string;
  rows: readonly Row[];
  columns: readonly DataColumn<Row>[];
  rowId: (row: Row) => string;
  address: TableAddress;
  onAddress: (change: TableAddress) => void;
  onOpen?: (row: Row) => void;
  /** The actions for selected rows; without it rows cannot be selected. */
  selectionActions?: (rows: Row[], clear: () => void) => ReactNode;
  hasMore?: boolean;
  isLoadingMore?: boolean;
  onMore?: () => void;
  toolbar?: ReactNode;
  empty?: ReactNode;
  height?: string;
};

const features = tableFeatures({ rowSortingFeature, columnVisibilityFeature, rowSelectionFeature, sortedRowModel: createSortedRowModel() });

const readRowId = (row: { id: string }) => row.id;

function readSorting(sort: string | undefined): SortingState {
  if (sort === undefined) return [];
  return sort.startsWith("-") ? [{ id: sort.slice(1), desc: true }] : [{ id: sort, desc: false }];
}

/** Numbers by size, texts by letters and the numbers in them; what has no value comes first. */
export function compareValues(a: unknown, b: unknown): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}

export function DataTable<Row extends object>(props: Props<Row>) {
  const { rows, columns, rowId, address, onAddress, onOpen, selectionActions, hasMore = false } = props;
  const { density } = useSettings();
  const [rowSelection, setRowSelection] = useState<RowSelectionState>({});

  const definitions = useMemo(
    () => columns.map((it): ColumnDef<typeof features, Row> => ({
      id: it.id,
      header: it.header,
      accessorFn: (row) => it.sortValue?.(row) ?? null,
      enableSorting: it.sortValue !== undefined,
      sortFn: (a, b, id) => compareValues(a.getValue(id), b.getValue(id)),
    })),
    [columns],
  );
  const columnVisibility = useMemo((): ColumnVisibilityState => {
    const shown = address.columns?.split(",");
    return Object.fromEntries(columns.map((it) => [it.id, shown === undefined ? it.isHiddenAtFirst !== true : shown.includes(it.id)]));
  }, [columns, address.columns]);
  const sorting = useMemo(() => readSorting(address.sort), [address.sort]);
  const data = useMemo(() => [...rows], [rows]);
  const table = useTable({
    features,
    columns: definitions,
    data,
    getRowId: rowId,
    state: { sorting, columnVisibility, rowSelection },
    onRowSelectionChange: setRowSelection,
    onSortingChange: (change) => {
      const first = (typeof change === "function" ? change(sorting) : change)[0];
      onAddress({ ...address, sort: first === undefined ? undefined : `${first.desc ? "-" : ""}${first.id}` });
    },
  });

  const shownColumns = columns.filter((it) => columnVisibility[it.id]);
  const tableRows = table.getRowModel().rows;
  const selected = tableRows.filter((it) => rowSelection[it.id] === true).map((it) => it.original);
  const { scroller, virtual, current } = useVirtualRows({
    rows: tableRows,
    rowKey: readRowId,
    rowPx: density === "compact" ? 32 : 42,
    overscan: 12,
    onOpen: (row) => onOpen?.(row.original),
    onSelect: selectionActions === undefined ? undefined : (row) => row.toggleSelected(),
  });
  const items = virtual.getVirtualItems();
  const before = items[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);

  const toggleColumn = (id: string) => {
    const shown = shownColumns.map((it) => it.id);
    const next = shown.includes(id) ? shown.filter((it) => it !== id) : columns.map((it) => it.id).filter((it) => it === id || shown.includes(it));
    if (next.length > 0) onAddress({ ...address, columns: next.join(",") });
  };

  return (
    <Box>
      <Group gap="xs" mb="xs" mih={rows.length === 0 ? undefined : 30}>
        {selected.length > 0 && selectionActions !== undefined ? (
          <>
            <Text size="sm" fw={500} role="status">{ui.selected(selected.length)}</Text>
            {selectionActions(selected, () => setRowSelection({}))}
            <Button variant="subtle" onClick={() => setRowSelection({})}>{ui.unselect}</Button>
          </>
        ) : props.toolbar}
        {rows.length === 0 ? null : (
          <Group gap="xs" ml="auto">
            <Text size="xs" c="dimmed">{ui.rows(rows.length, hasMore)}</Text>
            <Menu closeOnItemClick={false} position="bottom-end">
              <Menu.Target><Button variant="subtle" leftSection={<IconColumns3 size={14} />}>{ui.columns}</Button></Menu.Target>
              <Menu.Dropdown>
                {columns.map((it) => (
                  <Menu.CheckboxItem key={it.id} checked={columnVisibility[it.id] === true} onChange={() => toggleColumn(it.id)}>{it.header}</Menu.CheckboxItem>
                ))}
              </Menu.Dropdown>
            </Menu>
          </Group>
        )}
      </Group>
      {rows.length === 0 ? props.empty : (
        <div ref={scroller} className={classes.scroller} style={{ maxHeight: props.height ?? "calc(100vh - 190px)" }} tabIndex={0} role="region" aria-label={props.label}>
          <Table className={classes.table} verticalSpacing={density === "compact" ? 5 : 10} horizontalSpacing={10} aria-rowcount={rows.length + 1}>
            <Table.Thead className={classes.head}>
              <Table.Tr>
                {selectionActions === undefined ? null : (
                  <Table.Th w={36}>
                    <Checkbox aria-label={ui.selectAll} checked={table.getIsAllRowsSelected()} indeterminate={table.getIsSomeRowsSelected()} onChange={() => table.toggleAllRowsSelected()} />
                  </Table.Th>
                )}
                {shownColumns.map((it) => {
                  const column = table.getColumn(it.id);
                  const sorted = column?.getIsSorted() ?? false;
                  return (
                    <Table.Th key={it.id} w={it.width} className={it.isFlexible ? classes.flexible : undefined} ta={it.isRight ? "right" : undefined} aria-sort={sorted === false ? undefined : sorted === "asc" ? "ascending" : "descending"}>
                      {it.sortValue === undefined ? it.header : (
                        <UnstyledButton className={classes.sort} aria-label={ui.sortBy(it.header)} onClick={() => column?.toggleSorting()}>
                          {it.header}
                          {sorted === false ? null : sorted === "asc" ? <IconArrowUp size={12} aria-hidden /> : <IconArrowDown size={12} aria-hidden />}
                        </UnstyledButton>
                      )}
                    </Table.Th>
                  );
                })}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {before > 0 ? <tr aria-hidden style={{ height: before }} /> : null}
              {items.map((item) => {
                const row = tableRows[item.index];
                if (row === undefined) return null;
                return (
                  <Table.Tr
                    key={row.id}
                    data-index={item.index}
                    ref={virtual.measureElement}
                    aria-rowindex={item.index + 2}
                    data-current={item.index === current || undefined}
                    data-selected={rowSelection[row.id] === true || undefined}
                    className={classes.row}
                    onClick={onOpen === undefined ? undefined : (event) => {
                      if (!(event.target as HTMLElement).closest("a,button,input,label")) onOpen(row.original);
                    }}
                  >
                    {selectionActions === undefined ? null : (
                      <Table.Td>
                        <Checkbox aria-label={`${ui.selectRow} ${row.id}`} checked={rowSelection[row.id] === true} onChange={() => row.toggleSelected()} />
                      </Table.Td>
                    )}
                    {shownColumns.map((it) => <Table.Td key={it.id} className={it.isFlexible ? classes.flexible : undefined} ta={it.isRight ? "right" : undefined}>{it.cell(row.original)}</Table.Td>)}
                  </Table.Tr>
                );
              })}
              {after > 0 ? <tr aria-hidden style={{ height: after }} /> : null}
            </Table.Tbody>
          </Table>
        </div>
      )}
      {hasMore ? <Group justify="center" mt="sm"><Button loading={props.isLoadingMore} onClick={props.onMore}>{ui.more}</Button></Group> : null}
    </Box>
  );
}
