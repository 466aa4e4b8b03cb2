/** The list of the managed records of a namespace: filter, details beside it, and the editor. Columns are data. */
import { Drawer, Group, Stack, Title } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";

import type { Namespace } from "../../api/config";
import { records } from "../../texts/records";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { GatedButton } from "../../ui/GatedButton";
import { CopyableId, JsonText } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { NEW, RecordDrawer, type RecordForm } from "./RecordDrawer";
import { useDelete, type RecordRow } from "./useRecords";

/** What the address of such a list holds; without `id` the rows have no details. */
export type RecordSearch = { q?: string; id?: string; edit?: string; sort?: string; columns?: string };
export type RecordListTexts = { one: string; column: string; add: string; search: string; empty: string; emptyHelp: string; emptyFiltered: string; command: string };

type Details<Row> = {
  /** What stands beside the id. */
  state?: (row: Row) => ReactNode;
  /** Buttons before those that every record has. */
  actions?: (row: Row) => ReactNode;
  body: (row: Row) => ReactNode;
};
type Props<Row extends RecordRow> = {
  label: string;
  namespace: Namespace;
  texts: RecordListTexts;
  search: RecordSearch;
  list: UseQueryResult;
  rows: readonly Row[];
  columns: readonly DataColumn<Row>[];
  form: RecordForm;
  /** What the filter looks at besides the id. */
  describe?: (row: Row) => string;
  /** Whether a row is a record that can be edited; rows may also come from elsewhere. */
  isEditable?: (row: Row) => boolean;
  /** Without them a row opens the editor. */
  details?: Details<Row>;
};

export function RecordList<Row extends RecordRow>({ label, namespace, texts, search, list, rows, columns, form, describe, isEditable = () => true, details }: Props<Row>) {
  const change = useChangeSearch();
  const { q, id, edit, sort, columns: shownColumns } = search;
  const words = q?.toLowerCase();
  const shown = rows.filter((it) => words === undefined || `${it.id} ${describe?.(it) ?? ""}`.toLowerCase().includes(words));
  const opens = details === undefined ? "edit" : "id";
  const all = useMemo((): readonly DataColumn<Row>[] => [
    { id: "id", header: texts.column, cell: (it) => <Link to="." search={(now: Record<string, unknown>) => ({ ...now, [opens]: it.id })}>{it.id}</Link>, sortValue: (it) => it.id },
    ...columns,
  ], [columns, opens, texts.column]);
  const row = edit === undefined ? rows.find((it) => it.id === id) : undefined;
  const add = <GatedButton scope="config" variant="filled" leftSection={<IconPlus size={14} />} onClick={() => change({ edit: NEW })}>{texts.add}</GatedButton>;
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  return (
    <>
      <DataTable
        label={label}
        rows={shown}
        columns={all}
        rowId={(it) => it.id}
        address={{ sort, columns: shownColumns }}
        onAddress={change}
        onOpen={(it) => change({ [opens]: it.id })}
        toolbar={rows.length === 0 ? undefined : <><Filters values={{ q }} onChange={change} text={{ name: "q", placeholder: texts.search }} />{add}</>}
        empty={rows.length > 0 ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} action={add} command={texts.command}>{texts.emptyHelp}</Empty>}
      />
      {details === undefined ? null : (
        <Drawer opened={row !== undefined} onClose={() => change({ id: undefined })} title={row?.id} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
          {row === undefined ? null : <RecordDetails row={row} namespace={namespace} details={details} isEditable={isEditable(row)} onClose={() => change({ id: undefined })} onEdit={() => change({ edit: row.id })} />}
        </Drawer>
      )}
      <RecordDrawer {...form} namespace={namespace} name={texts.one} id={edit} onClose={() => change({ edit: undefined })} onPublished={(it) => change(details === undefined ? { edit: undefined } : { edit: undefined, id: it })} />
    </>
  );
}

type DetailsProps<Row> = { row: Row; namespace: Namespace; details: Details<Row>; isEditable: boolean; onClose: () => void; onEdit: () => void };

function RecordDetails<Row extends RecordRow>({ row, namespace, details, isEditable, onClose, onEdit }: DetailsProps<Row>) {
  const remove = useDelete(namespace);
  return (
    <Stack gap="md">
      <Group justify="space-between" gap="xs">
        <Group gap="sm"><CopyableId id={row.id} chars={32} />{details.state?.(row)}</Group>
        <Group gap="xs">
          {details.actions?.(row)}
          {isEditable ? (
            <>
              <GatedButton scope="config" onClick={onEdit}>{records.edit}</GatedButton>
              <GatedButton scope="publish" color="red" variant="outline" loading={row.facts === undefined} onClick={() => void remove(row.id, row.facts?.revision ?? 0).then((is) => { if (is) onClose(); })}>{records.delete}</GatedButton>
            </>
          ) : null}
        </Group>
      </Group>
      {details.body(row)}
      <Part title={records.asJson}><JsonText value={row.record} /></Part>
    </Stack>
  );
}

/** A part of the details of a record, with a title of its own. */
export function Part({ title, children }: { title: string; children: ReactNode }) {
  return <div><Title order={3} mb={4}>{title}</Title>{children}</div>;
}
