/** Creates or edits one record, in a form from the schema of its namespace or as JSON; it is checked while it is typed, and saved in a draft or published with a message. */
import { Alert, Button, Drawer, Group, Loader, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type RefObject } from "react";

import { schemaQuery, type Namespace } from "../../api/config";
import { stripAdded } from "../../api/drafts";
import { records as texts } from "../../texts/records";
import { ui } from "../../texts/ui";
import { CodeEditor } from "../../ui/code/CodeEditor";
import { useConfirm } from "../../ui/confirm";
import { GatedButton } from "../../ui/GatedButton";
import { JsonText } from "../../ui/parts";
import { Problems, Refusal } from "../../ui/Problems";
import { dropReadOnly, readObject } from "../../ui/recordText";
import { SchemaForm } from "../../ui/SchemaForm";
import type { JsonObject, JsonSchema } from "../../ui/schema/model";
import { Loading } from "../../ui/states";
import { useLeaveGuard } from "../../ui/useLeaveGuard";
import { PublishDialog } from "./parts";
import { useDelete, useRecords, type RecordRow } from "./useRecords";
import { useRecordEditor, type RecordEditor } from "./useRecordEditor";

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
  const { list, rows } = useRecords(namespace);
  const schema = useMemo(() => (given === undefined ? undefined : orderFields(given, first ?? [])), [given, first]);
  const row = rows.find((it) => it.id === id);
  if (schema === undefined || list.data === undefined || (id !== NEW && row?.facts === undefined)) return <Loading rows={4} />;
  if (row?.facts?.owner === "code" && !OVERRIDABLE.includes(namespace)) return <Stack><Alert color="gray">{texts.ofCode}</Alert><JsonText value={row.record} maxHeight="70vh" /></Stack>;
  return <Editor {...props} schema={schema} row={row} taken={list.data.map((it) => it.id)} />;
}

type EditorProps = Props & InDrawer & { schema: JsonSchema; row: RecordRow | undefined; taken: readonly string[] };

function Editor({ namespace, name, schema, row, taken, unsaved, onClose, onPublished, template = {}, hide = [], multiline, suggestions }: EditorProps) {
  const [initial] = useState(() => (row === undefined ? { id: "", ...template } : stripAdded(dropReadOnly(row.record, schema))));
  const editor = useRecordEditor({ namespace, live: row?.record, facts: row?.facts, taken }, initial);
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
  const save = async () => {
    const draft = await editor.saveInDraft();
    if (draft === null) return;
    unsaved.current = false;
    onClose();
    void navigate({ to: "/changes", search: { draft: draft.id } });
  };
  const publish = async (message: string) => {
    await editor.publish(message);
    unsaved.current = false;
    onClose();
    onPublished?.(id);
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
        {row?.facts === undefined ? null : <Text size="xs" c="dimmed">{texts.owner}: {texts.owners[row.facts.owner] ?? row.facts.owner} · {texts.revision(row.facts.revision)}</Text>}
      </Group>
      {row === undefined ? <TextInput label={texts.id} description={texts.idHelp} required withAsterisk autoFocus value={id} error={id === "" ? undefined : editor.idProblem} onChange={(event) => edit({ ...mine, id: event.currentTarget.value })} /> : null}
      {look === "form"
        ? <SchemaForm label={name} schema={schema} value={mine} onChange={edit} onBadText={setBad} problems={editor.onFields} hide={["id", ...hide]} multiline={multiline} suggestions={suggestions} />
        : <RecordText id={id} mine={mine} typed={typed} onChange={edit} onTyped={(text) => { setTyped(text); setBad(text !== null); }} />}
      <State editor={editor} isBad={isBad} hasFields={look === "form"} />
      <Group justify="flex-end" gap="xs">
        {row === undefined ? null : <GatedButton scope="publish" color="red" variant="outline" mr="auto" onClick={() => void remove(id).then((is) => { if (is) onClose(); })}>{texts.delete}</GatedButton>}
        <Button onClick={onClose}>{ui.cancel}</Button>
        <GatedButton scope="config" reason={reason} loading={editor.isBusy} onClick={() => void save()}>{texts.save}</GatedButton>
        <GatedButton scope="publish" reason={reason} variant="filled" onClick={() => setPublishing(true)}>{texts.publish}</GatedButton>
      </Group>
      <PublishDialog title={texts.publishTitle(id)} isOpen={isPublishing} onClose={() => setPublishing(false)} onPublish={publish} />
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
