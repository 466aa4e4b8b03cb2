/** Creates or edits one record, in a form from the schema of its namespace or as JSON; it is checked while it is typed, and saved in a draft or published with a message. */
import { Alert, Button, Drawer, Group, Loader, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type RefObject } from "react";

import { loadFacts, loadVersion, schemaQuery, type Namespace } from "../../api/config";
import { fetchDrafts, stripAdded, type Draft, type DraftSummary } from "../../api/drafts";
import { callerQuery } from "../../api/queries";
import { changes } from "../../texts/changes";
import { records as texts } from "../../texts/records";
import { ui } from "../../texts/ui";
import { CodeEditor } from "../../ui/code/CodeEditor";
import { useConfirm } from "../../ui/confirm";
import { GatedButton } from "../../ui/GatedButton";
import { MergeDialog } from "../../ui/merge/MergeDialog";
import { noteError } from "../../ui/notices";
import { JsonText } from "../../ui/parts";
import { Problems, Refusal } from "../../ui/Problems";
import { dropReadOnly, readObject } from "../../ui/recordText";
import { SchemaForm } from "../../ui/SchemaForm";
import type { JsonObject, JsonSchema } from "../../ui/schema/model";
import { Failure, Loading } from "../../ui/states";
import { useLeaveGuard } from "../../ui/useLeaveGuard";
import { ChooseDraft } from "./ChooseDraft";
import { PublishDialog } from "./parts";
import { useDelete, useRecords } from "./useRecords";
import { useRecordEditor, type Begun, type RecordEditor } from "./useRecordEditor";

/** What the address says instead of an id when a record is to be made; no id can have this character. */
export const NEW = "+";
/** Namespaces whose records of the code can be overridden. */
const OVERRIDABLE: readonly Namespace[] = ["agents", "tools"];

export type RecordForm = {
  /** What a new record begins with. */
  template?: JsonObject;
  hide?: readonly string[];
  /** Fields that stand first, in this order. */
  first?: readonly string[];
  multiline?: readonly string[];
  suggestions?: Readonly<Record<string, readonly string[]>>;
};
type Props = RecordForm & {
  namespace: Namespace;
  /** What a record is called, in texts. */
  name: string;
  /** The id of the record; `NEW` makes one; undefined closes the drawer. */
  id: string | undefined;
  onClose: () => void;
  /** What a published record leads to. */
  onPublished?: (id: string) => void;
};

export function RecordDrawer(props: Props) {
  const { id, name, onClose } = props;
  const title = id === NEW ? texts.newTitle(name) : texts.editTitle(id ?? "");
  const confirm = useConfirm();
  const unsaved = useRef(false);
  // Escape and a click beside the drawer are easily meant for something else.
  const leave = async () => {
    if (unsaved.current && !(await confirm({ title: ui.leaveTitle, body: <Text size="sm">{texts.leaveBody}</Text>, confirm: ui.leave, isDangerous: true }))) return;
    onClose();
  };
  return (
    <Drawer opened={id !== undefined} onClose={() => void leave()} title={title} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {id === undefined ? null : <LoadedRecord key={id} {...props} id={id} unsaved={unsaved} />}
    </Drawer>
  );
}

type InDrawer = { id: string; unsaved: RefObject<boolean> };

function LoadedRecord(props: Props & InDrawer) {
  const { namespace, id, first } = props;
  const { data: given } = useQuery(schemaQuery(namespace));
  const { list } = useRecords(namespace);
  const schema = useMemo(() => (given === undefined ? undefined : orderFields(given, first ?? [])), [given, first]);
  const begun = useQuery(begunQuery(namespace, id));
  if (begun.isError && begun.data === undefined) return <Failure error={begun.error} onRetry={() => void begun.refetch()} />;
  if (schema === undefined || list.data === undefined || begun.data === undefined) return <Loading rows={4} />;
  const { version, owner } = begun.data;
  if (version !== null && owner === "code" && !OVERRIDABLE.includes(namespace)) return <Stack><Alert color="gray">{texts.ofCode}</Alert><JsonText value={version.record} maxHeight="70vh" /></Stack>;
  return <Editor {...props} schema={schema} given={begun.data} taken={list.data.map((it) => it.id)} />;
}

/** What an edit begins with: the record and its revision of one read, so that it is published over nothing that was not seen. */
function begunQuery(namespace: Namespace, id: string) {
  return queryOptions({
    queryKey: ["config", "begun", namespace, id],
    queryFn: async ({ signal }): Promise<Begun> => (id === NEW ? { version: null, owner: undefined } : { version: await loadVersion(namespace, id, signal), owner: (await loadFacts(namespace, id)).owner }),
    refetchInterval: false,
    gcTime: 0,
  });
}

type EditorProps = Props & InDrawer & { schema: JsonSchema; given: Begun; taken: readonly string[] };

function Editor({ namespace, name, schema, given, taken, unsaved, onClose, onPublished, template = {}, hide = [], multiline, suggestions }: EditorProps) {
  const confirm = useConfirm();
  const { data: caller } = useQuery(callerQuery);
  const read = (record: JsonObject) => stripAdded(dropReadOnly(record, schema));
  const [initial] = useState(() => (given.version === null ? { id: "", ...template } : read(given.version.record)));
  const confirmKeep = ({ title }: Draft) => confirm({ title: texts.keepTitle(editor.id), body: <Text size="sm">{texts.keepBody(title || changes.untitled)}</Text>, confirm: texts.keep });
  const editor: RecordEditor = useRecordEditor({ namespace, begun: given, taken, read, confirmKeep }, initial);
  const { begun, clash } = editor;
  const isNew = begun.version === null;
  const [drafts, setDrafts] = useState<readonly DraftSummary[] | null>(null);
  const [look, setLook] = useState("form");
  const [isBad, setBad] = useState(false);
  /** Text that is no JSON yet is kept while the form is shown. */
  const [typed, setTyped] = useState<string | null>(null);
  const [isPublishing, setPublishing] = useState(false);
  const navigate = useNavigate();
  const remove = useDelete(namespace);
  const { mine, edit, id } = editor;
  useEffect(() => {
    unsaved.current = mine !== initial || typed !== null;
    return () => { unsaved.current = false; };
  }, [unsaved, mine, initial, typed]);
  useLeaveGuard(() => unsaved.current, () => Promise.resolve(false));
  const finish = (draft: Draft | null) => {
    if (draft === null) return;
    unsaved.current = false;
    onClose();
    void navigate({ to: "/changes", search: { draft: draft.id } });
  };
  const save = (draftId: string | null) => {
    setDrafts(null);
    void editor.saveInDraft(draftId).then(finish);
  };
  /** Asks for the draft, unless there is none. */
  const beginSave = async () => {
    const found = await fetchDrafts().catch(noteError);
    if (found?.length === 0) save(null);
    else setDrafts(found ?? null);
  };
  const publish = async (message: string) => {
    if (!(await editor.publish(message))) return false;
    unsaved.current = false;
    onClose();
    onPublished?.(id);
    return true;
  };
  const changeLook = (next: string) => {
    setBad(next === "json" && typed !== null);
    setLook(next);
  };
  const reason = editor.idProblem ?? (isBad ? texts.invalid : undefined);
  return (
    <Stack gap="sm">
      <Group justify="space-between" gap="xs">
        <SegmentedControl aria-label={texts.look} value={look} onChange={changeLook} data={[{ value: "form", label: texts.form }, { value: "json", label: texts.json }]} />
        {begun.version === null ? null : <Text size="xs" c="dimmed">{texts.owner}: {texts.owners[begun.owner ?? ""] ?? begun.owner} · {texts.revision(begun.version.revision)}</Text>}
      </Group>
      {isNew ? <TextInput label={texts.id} description={texts.idHelp} required withAsterisk autoFocus value={id} error={id === "" ? undefined : editor.idProblem} onChange={(event) => edit({ ...mine, id: event.currentTarget.value })} /> : null}
      {begun === given ? null : <Alert color="gray" role="status">{texts.merged}</Alert>}
      {look === "form"
        ? <SchemaForm label={name} schema={schema} value={mine} onChange={edit} onBadText={setBad} problems={editor.onFields} hide={["id", ...hide]} multiline={multiline} suggestions={suggestions} />
        : <RecordText key={begun === given ? "given" : "merged"} id={id} mine={mine} typed={typed} onChange={edit} onTyped={(text) => { setTyped(text); setBad(text !== null); }} />}
      <State editor={editor} isBad={isBad} hasFields={look === "form"} />
      <Group justify="flex-end" gap="xs">
        {begun.version === null ? null : <GatedButton scope="publish" color="red" variant="outline" mr="auto" onClick={() => void remove(id, begun.version?.revision ?? 0).then((is) => { if (is) onClose(); })}>{texts.delete}</GatedButton>}
        <Button onClick={onClose}>{ui.cancel}</Button>
        <GatedButton scope="config" reason={reason} loading={editor.isBusy} onClick={() => void beginSave()}>{texts.save}</GatedButton>
        <GatedButton scope="publish" reason={reason} variant="filled" onClick={() => setPublishing(true)}>{texts.publish}</GatedButton>
      </Group>
      <PublishDialog title={texts.publishTitle(id)} isOpen={isPublishing} onClose={() => setPublishing(false)} onPublish={publish} />
      {drafts === null ? null : <ChooseDraft drafts={drafts} person={caller?.id ?? ""} namespace={namespace} id={id} onClose={() => setDrafts(null)} onChoose={save} />}
      {clash === null ? null : (
        <MergeDialog
          title={"draft" in clash ? texts.draftClash(clash.draft.title || changes.untitled) : texts.liveClash(id)}
          versions={clash}
          apply={"draft" in clash || clash.into !== undefined ? texts.saveHere : texts.takeMerged}
          onCancel={editor.forgetClash}
          onResolve={(merged) => void editor.resolve(merged).then(finish)}
        />
      )}
    </Stack>
  );
}

type TextProps = { id: string; mine: JsonObject; typed: string | null; onChange: (next: JsonObject) => void; onTyped: (unfinished: string | null) => void };

/** The record as JSON, without its id; the text stays as typed, and the record follows whenever it is an object. */
function RecordText({ id, mine, typed, onChange, onTyped }: TextProps) {
  const [text, setText] = useState(() => typed ?? JSON.stringify(Object.fromEntries(Object.entries(mine).filter(([name]) => name !== "id")), null, 2));
  const read = readObject(text);
  const change = (next: string) => {
    setText(next);
    const found = readObject(next);
    onTyped("problem" in found ? next : null);
    if ("body" in found) onChange({ ...(found.body as JsonObject), id });
  };
  return (
    <div>
      <CodeEditor label={texts.body} language="json" value={text} onChange={change} maxHeight="46vh" />
      <Text size="xs" c="dimmed" mt={4}>{texts.secretHelp}</Text>
      {"problem" in read ? <Text size="sm" c="var(--mantine-color-error)" role="alert">{texts.notJson(read.problem)}</Text> : null}
    </div>
  );
}

/** Whether the record compiles. A form shows the problems of its fields at the fields, and the others here. */
function State({ editor, isBad, hasFields }: { editor: RecordEditor; isBad: boolean; hasFields: boolean }) {
  const { check, isChecking, problems, onFields, error } = editor;
  const shown = hasFields ? problems.filter((it) => !onFields.some((field) => it.path.endsWith(`/${field.path}`) && field.message === it.message)) : problems;
  return (
    <>
      <div role="status" aria-live="polite">
        {isBad ? null : isChecking ? <Group gap={6}><Loader size={12} /><Text size="sm" c="dimmed">{texts.checking}</Text></Group>
          : check === undefined ? null : check.isOk ? <Text size="sm">{texts.valid}</Text> : <Text size="sm" c="dimmed">{texts.invalid}</Text>}
      </div>
      <Problems problems={shown} diagnostics={check?.diagnostics} />
      {problems.length > 0 ? null : <Refusal error={error} />}
    </>
  );
}

/** A schema whose fields stand in another order. */
function orderFields(schema: JsonSchema, first: readonly string[]): JsonSchema {
  const properties = schema.properties as Record<string, JsonSchema>;
  const names = [...first.filter((it) => it in properties), ...Object.keys(properties).filter((it) => !first.includes(it))];
  return { ...schema, properties: Object.fromEntries(names.map((it) => [it, properties[it] ?? {}])) };
}
