/** The list of drafts. */
import { Button, Group, Modal, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import type { Head } from "../../api/config";
import { createDraft, type DraftSummary } from "../../api/drafts";
import { refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { formatDuration } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteError } from "../../ui/notices";
import { Age, useNow } from "../../ui/parts";
import { Empty } from "../../ui/states";
import { Tag } from "../../ui/Tag";

const route = getRouteApi("/changes");

function ExpiresIn({ at }: { at: number }) {
  const now = useNow(60_000);
  return <>{formatDuration(Math.max(0, at - now))}</>;
}

/** It stands beside the list: the first draft of a colleague does not close it. */
function NewDraft({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [title, setTitle] = useState("");
  const navigate = useNavigate();
  const create = async () => {
    try {
      const draft = await createDraft(title);
      await refreshKinds("config");
      onClose();
      await navigate({ to: "/changes", search: { draft: draft.id } });
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <Modal opened={isOpen} onClose={onClose} title={texts.newDraft} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); void create(); }}>
        <TextInput label={texts.draftTitle} value={title} maxLength={200} data-autofocus onChange={(event) => setTitle(event.currentTarget.value)} />
        <Group justify="flex-end" gap="xs" mt="md"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled">{texts.create}</Button></Group>
      </form>
    </Modal>
  );
}

function nameRecords(draft: DraftSummary): string {
  return draft.changes.map((it) => `${it.ns}/${it.id}`).join(", ");
}

export function DraftsTab({ drafts, head }: { drafts: readonly DraftSummary[]; head: Head }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const columns = useMemo((): readonly DataColumn<DraftSummary>[] => [
    { id: "title", header: texts.columns.title, cell: (it) => <Link to="/changes" search={{ draft: it.id }}>{it.title || texts.untitled}</Link>, sortValue: (it) => it.title ?? "" },
    { id: "records", header: texts.columns.records, cell: (it) => <span title={nameRecords(it)}>{it.changes.length}</span>, sortValue: (it) => it.changes.length, isRight: true },
    { id: "editors", header: texts.columns.editors, cell: (it) => it.editors.join(", "), sortValue: (it) => it.editors.join(",") },
    { id: "base", header: texts.columns.base, cell: (it) => it.base ?? ui.none, sortValue: (it) => it.base, isRight: true },
    { id: "state", header: texts.columns.state, cell: (it) => (it.base === head.publication ? texts.upToDate : <Tag color="yellow">{texts.behind}</Tag>) },
    { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} />, sortValue: (it) => it.updated_at },
    { id: "expires", header: texts.columns.expires, cell: (it) => <ExpiresIn at={it.expires_at} />, sortValue: (it) => it.expires_at, isHiddenAtFirst: true },
  ], [head.publication]);
  const [isOpen, dialog] = useDisclosure(false);
  const add = <GatedButton scope="config" variant="filled" onClick={dialog.open}>{texts.newDraft}</GatedButton>;
  return (
    <>
      <DataTable
        label={texts.tabs.drafts}
        rows={drafts}
        columns={columns}
        rowId={(it) => it.id}
        address={{ sort: search.sort, columns: search.columns }}
        onAddress={change}
        onOpen={(it) => void navigate({ to: "/changes", search: { draft: it.id } })}
        toolbar={drafts.length === 0 ? undefined : add}
        empty={<Empty title={texts.emptyDrafts} action={add} command={texts.draftsCommand}>{texts.emptyDraftsHelp}</Empty>}
      />
      <NewDraft isOpen={isOpen} onClose={dialog.close} />
    </>
  );
}
