/** Edits one record of the configuration as JSON: checked by the server while it is typed, published with a message or put into a draft. */
import { Alert, Drawer, Group, Loader, Select, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";

import { ask } from "../api/ask";
import { useMay } from "../api/caller";
import { ApiError } from "../api/errors";
import { draftsQuery, metaQuery, recordPath, type ConfigRecord, type Diagnostic, type Draft, type Validation } from "../api/managed";
import { refreshKinds } from "../api/queries";
import { recordEditor as texts } from "../texts/recordEditor";
import { ui } from "../texts/ui";
import { useConfirm } from "./confirm";
import { GatedButton } from "./GatedButton";
import { noteDone, noteError } from "./notices";
import { CopyableId, JsonText } from "./parts";
import { Problems } from "./Problems";
import { dropReadOnly, isRecordId, readObject } from "./recordText";

const JsonEditor = lazy(() => import("./JsonEditor"));
const CHECK_MS = 400;
const NEW_DRAFT = "";

export type EditedRecord = { namespace: string; what: string; record: ConfigRecord | null; template: Readonly<Record<string, unknown>> };
type Props = { edited: EditedRecord | null; onClose: () => void };

export function RecordEditor({ edited, onClose }: Props) {
  const title = edited === null ? "" : edited.record === null ? texts.create(edited.what) : texts.edit(edited.what, edited.record.id);
  return (
    <Drawer opened={edited !== null} onClose={onClose} title={title} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {edited === null ? null : <Loaded key={`${edited.namespace}/${edited.record?.id ?? ""}`} edited={edited} onClose={onClose} />}
    </Drawer>
  );
}

function Loaded({ edited, onClose }: { edited: EditedRecord; onClose: () => void }) {
  const { namespace, record } = edited;
  const schema = useQuery({ queryKey: ["config", "schema", namespace], queryFn: ({ signal }) => ask<Parameters<typeof dropReadOnly>[1]>("GET", `/v1/config/${namespace}/$schema`, { signal }), staleTime: Infinity });
  const meta = useQuery(metaQuery(namespace));
  if (schema.data === undefined || meta.data === undefined) return <Skeleton height={240} />;
  const known = meta.data.find((it) => it.id === record?.id);
  if (record !== null && known?.owner === "code") return <Stack><Alert color="gray">{texts.ofCode}</Alert><JsonText value={record} maxHeight="70vh" /></Stack>;
  const { id, ...body } = dropReadOnly(record ?? { id: "", ...edited.template }, schema.data);
  return <Form edited={edited} onClose={onClose} initialId={typeof id === "string" ? id : ""} initialText={JSON.stringify(body, null, 2)} revision={known?.revision ?? 0} owner={known?.owner} />;
}

/** Asks the server whether what is typed compiles. */
function useCheck(namespace: string, id: string, text: string) {
  const [settled] = useDebouncedValue(`${id}\n${text}`, CHECK_MS);
  const read = readObject(text);
  const isReady = isRecordId(id) && "body" in read;
  const query = useQuery({
    queryKey: ["config", "check", namespace, settled],
    queryFn: async ({ signal }): Promise<Validation> => {
      try {
        return await ask<Validation>("POST", `/v1/config/${namespace}/validate`, { query: { id }, body: "body" in read ? { ...read.body, id } : {}, signal });
      } catch (error) {
        // What cannot be decoded at all is refused rather than described.
        if (error instanceof ApiError && error.status < 500) return { ok: false, problems: error.problems.length > 0 ? [...error.problems] : [{ path: `${namespace}/${id}`, code: error.code, message: error.message }], diagnostics: [] };
        throw error;
      }
    },
    enabled: isReady && settled === `${id}\n${text}`,
    refetchInterval: false,
    gcTime: 0,
  });
  return { read, isReady, check: isReady ? query.data : undefined, isChecking: isReady && (query.isFetching || settled !== `${id}\n${text}`) };
}

type FormProps = { edited: EditedRecord; onClose: () => void; initialId: string; initialText: string; revision: number; owner?: string };

function Form({ edited, onClose, initialId, initialText, revision, owner }: FormProps) {
  const { namespace, record } = edited;
  const [id, setId] = useState(initialId);
  const [text, setText] = useState(initialText);
  const [message, setMessage] = useState("");
  const [draftId, setDraftId] = useState(NEW_DRAFT);
  const [refused, setRefused] = useState<readonly Diagnostic[]>([]);
  const [isBusy, setIsBusy] = useState(false);
  const confirm = useConfirm();
  const may = useMay();
  const drafts = useQuery({ ...draftsQuery, enabled: may("config") });
  const { read, isReady, check, isChecking } = useCheck(namespace, id, text);

  const act = async (work: () => Promise<void>) => {
    setIsBusy(true);
    setRefused([]);
    try {
      await work();
      await refreshKinds("config", "model", "agent", "audit", "usage");
      onClose();
    } catch (error) {
      if (error instanceof ApiError && error.problems.length > 0) setRefused(error.problems);
      else noteError(error);
    } finally {
      setIsBusy(false);
    }
  };
  const body = "body" in read ? { ...read.body, id } : {};
  const publish = () => act(async () => {
    await ask("PUT", recordPath(namespace, id), { body, query: { message: message || undefined }, headers: { "If-Match": `"${revision}"` } });
    noteDone(texts.published(id));
  });
  const draft = () => act(async () => {
    const known = drafts.data?.find((it) => it.id === draftId) ?? (await ask<Draft>("POST", "/v1/config/drafts", { body: { title: message || `${namespace}/${id}` } }));
    await ask("PUT", `/v1/config/drafts/${known.id}/${namespace}/${encodeURIComponent(id)}`, { body: { spec: body } });
    noteDone(texts.drafted(known.title ?? known.id));
  });
  const remove = async () => {
    if (!(await confirm({ title: texts.removeTitle(id), body: <Text size="sm">{texts.removeBody}</Text>, confirm: texts.remove, isDangerous: true }))) return;
    await act(async () => {
      await ask("DELETE", recordPath(namespace, id), { query: { message: message || undefined }, headers: { "If-Match": `"${revision}"` } });
      noteDone(texts.removed(id));
    });
  };
  const reason = isReady && check?.ok === true ? undefined : texts.checking;
  return (
    <Stack gap="sm">
      {record === null ? <TextInput label={texts.id} description={texts.idHelp} value={id} onChange={(event) => setId(event.currentTarget.value.trim())} data-autofocus required />
        : <Group gap="md"><CopyableId id={id} chars={40} /><Text size="xs" c="dimmed">{texts.owner}: {owner ?? ui.none} · {texts.revision(revision)}</Text></Group>}
      <Suspense fallback={<Skeleton height={200} />}><JsonEditor label={texts.body} initial={initialText} onChange={setText} /></Suspense>
      <Text size="xs" c="dimmed">{texts.secretHelp}</Text>
      <div role="status" aria-live="polite">
        {"problem" in read ? <Text size="sm" c="light-dark(var(--mantine-color-red-9), var(--mantine-color-red-4))">{texts.notJson(read.problem)}</Text> : isChecking ? <Group gap={6}><Loader size={12} /><Text size="sm" c="dimmed">{texts.checking}</Text></Group>
          : check?.ok === true ? <Text size="sm">{texts.valid}</Text> : null}
      </div>
      <Problems problems={refused.length > 0 ? refused : (check?.problems ?? [])} diagnostics={check?.diagnostics} />
      <TextInput label={texts.message} description={texts.messageHelp} value={message} maxLength={2_000} onChange={(event) => setMessage(event.currentTarget.value)} />
      <Group justify="space-between" align="flex-end">
        {record === null ? <span /> : <GatedButton scope="publish" onClick={() => void remove()}>{texts.remove}</GatedButton>}
        <Group gap="xs" align="flex-end">
          <Select aria-label={texts.draft} w={170} data={[{ value: NEW_DRAFT, label: texts.newDraft }, ...(drafts.data ?? []).map((it) => ({ value: it.id, label: it.title ?? texts.untitled }))]} value={draftId} onChange={(value) => setDraftId(value ?? NEW_DRAFT)} />
          <GatedButton scope="config" loading={isBusy} reason={isReady ? undefined : texts.checking} onClick={() => void draft()}>{texts.addToDraft}</GatedButton>
          <GatedButton scope="publish" variant="filled" loading={isBusy} reason={reason} onClick={() => void publish()}>{texts.publish}</GatedButton>
        </Group>
      </Group>
    </Stack>
  );
}
