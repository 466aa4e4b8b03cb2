/** Creates or edits a case: input and expectation, its world, the whole as JSON, and a trial of what is saved. */
import { Alert, Button, Drawer, Group, Stack, Tabs, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type RefObject } from "react";

import { datasetQuery, formsQuery, putCase, replaceDataset, type Case, type Dataset } from "../../api/evals";
import { isConflict } from "../../api/errors";
import { parseExact, writeExact } from "../../api/exactJson";
import { queryClient } from "../../api/queries";
import { datasets as texts } from "../../texts/datasets";
import { ui } from "../../texts/ui";
import { CodeEditor } from "../../ui/code/CodeEditor";
import { useConfirm } from "../../ui/confirm";
import { isEvalId } from "../../ui/evals/ids";
import { GatedButton } from "../../ui/GatedButton";
import { MergeDialog, type Versions } from "../../ui/merge/MergeDialog";
import { noteDone } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { SchemaForm } from "../../ui/SchemaForm";
import { isObject, resolveSchema, type Json, type JsonObject } from "../../ui/schema/model";
import { Empty, Failure, Loading } from "../../ui/states";
import { useLeaveGuard } from "../../ui/useLeaveGuard";
import { TrialTab } from "./TrialTab";

/** What the address says instead of an id when a case is to be made. */
export const NEW = "+";
const TABS = ["expect", "world", "json", "trial"] as const;
const FIRST = ["user_input", "expect", "scorers", "description", "tags", "split", "weight", "expected"];
const WORLD = ["tools", "decisions", "on_question", "state", "context", "history", "continued_turns", "user"];

type Props = { dataset: Dataset; id: string | undefined; onClose: () => void; onMade: (id: string) => void };

export function CaseDrawer(props: Props) {
  const { dataset, id, onClose } = props;
  const unsaved = useRef(false);
  const confirm = useConfirm();
  const given = dataset.cases.find((it) => it.id === id);
  const leave = async () => {
    if (unsaved.current && !(await confirm({ title: ui.leaveTitle, body: <Text size="sm">{texts.case.leaveBody}</Text>, confirm: ui.leave, isDangerous: true }))) return;
    onClose();
  };
  return (
    <Drawer opened={id !== undefined} onClose={() => void leave()} title={id === NEW ? texts.case.newTitle : texts.case.title(id ?? "")} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {id === undefined ? null : id !== NEW && given === undefined ? <Empty title={texts.case.gone} /> : <CaseEditor key={id} {...props} id={id} given={given ?? { id: "", user_input: "" }} unsaved={unsaved} />}
    </Drawer>
  );
}

/** The text of the JSON editor, and the case that it says. */
function JsonTab({ value, onChange, onBad }: { value: Case; onChange: (next: Case) => void; onBad: (isBad: boolean) => void }) {
  const [text, setText] = useState(() => writeExact(value, 2) ?? "");
  const change = (next: string) => {
    setText(next);
    try {
      const read = parseExact(next, true) as Json;
      onBad(!isObject(read));
      if (isObject(read)) onChange({ ...read, id: value.id });
    } catch {
      onBad(true);
    }
  };
  return <Stack gap="xs"><Text size="sm" c="dimmed">{texts.case.jsonHelp}</Text><CodeEditor label={texts.case.tabs.json} language="json" value={text} minHeight={320} maxHeight="calc(100vh - 320px)" onChange={change} /></Stack>;
}

function useSaving({ dataset, id, unsaved, onMade }: Props & { id: string; unsaved: RefObject<boolean> }, given: Case) {
  const [begun, setBegun] = useState({ base: given, revision: dataset.revision });
  const [theirs, setTheirs] = useState<(Versions & { now: Dataset }) | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const save = async (mine: Case, into: Dataset, done: string): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const saved = await replaceDataset(into.id, { ...into, cases: putCase(into.cases, id === NEW ? null : id, mine) }, into.revision);
      unsaved.current = false;
      const same = saved.duplicates.find((it) => it.case_id === mine.id);
      noteDone(same === undefined ? done : `${done} ${texts.case.duplicate(same.same_as)}`);
      setBegun({ base: saved.cases.find((it) => it.id === mine.id) ?? mine, revision: saved.revision });
      onMade(mine.id);
    } catch (caught) {
      // Another person has written a revision meanwhile: if they changed this case, both are shown; otherwise it goes on theirs.
      if (!isConflict(caught)) return setError(caught);
      const now = await queryClient.fetchQuery({ ...datasetQuery(into.id), staleTime: 0 }).catch(() => null);
      const other = now?.cases.find((it) => it.id === id);
      if (now === null || now.revision === into.revision) return setError(caught);
      if (other === undefined || JSON.stringify(other) === JSON.stringify(begun.base)) return save(mine, now, done);
      setTheirs({ base: begun.base, theirs: other, mine, now });
    } finally {
      setBusy(false);
    }
  };
  return { base: begun.base, revision: begun.revision, theirs, forget: () => setTheirs(null), error, isBusy, save };
}

function CaseEditor(props: Props & { id: string; given: Case; unsaved: RefObject<boolean> }) {
  const { dataset, id, given, unsaved } = props;
  const forms = useQuery(formsQuery);
  const [tab, setTab] = useState<(typeof TABS)[number]>("expect");
  const saving = useSaving(props, given);
  const [mine, setMine] = useState<Case>(given);
  const [isBad, setBad] = useState(false);
  const isNew = id === NEW;
  const isChanged = JSON.stringify(mine) !== JSON.stringify(saving.base);
  useEffect(() => {
    unsaved.current = isChanged;
    return () => { unsaved.current = false; };
  }, [unsaved, isChanged]);
  useLeaveGuard(() => unsaved.current, () => Promise.resolve(false));
  const schema = useMemo(() => (forms.data === undefined ? undefined : { ...forms.data.case, ...resolveSchema(forms.data.case, forms.data.case) }), [forms.data]);
  if (forms.isError) return <Failure error={forms.error} onRetry={() => void forms.refetch()} />;
  if (schema === undefined || forms.data === undefined) return <Loading rows={5} />;
  const names = Object.keys((schema as { properties?: object }).properties ?? {});
  const shared = { schema, value: mine as JsonObject, onChange: (next: JsonObject) => setMine({ ...next, id: mine.id }), onBadText: setBad, multiline: ["user_input", "description"], suggestions: { scorer: Object.keys(forms.data.scorers) } };
  const isDraft = mine.status === "draft";
  const isTaken = isNew && dataset.cases.some((it) => it.id === mine.id);
  const reason = !isEvalId(mine.id) ? texts.badId : isTaken ? texts.taken : isBad ? ui.fixJson : undefined;
  const submit = (next: Case, done: string) => { setMine(next); void saving.save(next, dataset, done); };
  return (
    <Stack gap="sm">
      {saving.theirs === null ? null : <MergeDialog title={texts.case.mergeTitle(id)} versions={saving.theirs} onResolve={(merged) => { const { now } = saving.theirs ?? { now: dataset }; saving.forget(); const next = { ...merged, id } as Case; setMine(next); void saving.save(next, now, texts.case.saved); }} />}
      {isDraft ? <Alert color="yellow" title={texts.case.isDraft}>{texts.case.isDraftHelp}</Alert> : null}
      {isNew ? <TextInput autoFocus label={texts.case.id} required withAsterisk value={mine.id} error={mine.id !== "" && (isTaken || !isEvalId(mine.id)) ? reason : undefined} onChange={(event) => setMine({ ...mine, id: event.currentTarget.value })} /> : null}
      <Tabs value={tab} keepMounted={false} onChange={(value) => setTab(TABS.find((it) => it === value) ?? "expect")}>
        <Tabs.List mb="sm" aria-label={texts.case.tabsLabel}>{TABS.map((it) => <Tabs.Tab key={it} value={it}>{texts.case.tabs[it]}</Tabs.Tab>)}</Tabs.List>
        <Tabs.Panel value="expect"><SchemaForm label={texts.case.tabs.expect} {...shared} hide={names.filter((it) => !FIRST.includes(it))} /></Tabs.Panel>
        <Tabs.Panel value="world"><Text size="sm" c="dimmed" mb="xs">{texts.case.worldHelp}</Text><SchemaForm label={texts.case.tabs.world} {...shared} hide={names.filter((it) => !WORLD.includes(it))} /></Tabs.Panel>
        <Tabs.Panel value="json"><JsonTab key={String(saving.revision)} value={mine} onChange={setMine} onBad={setBad} /></Tabs.Panel>
        <Tabs.Panel value="trial"><TrialTab datasetId={dataset.id} caseId={isNew ? null : id} isSaved={!isChanged && !isNew} /></Tabs.Panel>
      </Tabs>
      <Refusal error={saving.error} />
      <Group justify="flex-end" gap="xs">
        {typeof mine.source_run_id === "string" ? <Button variant="subtle" mr="auto" renderRoot={(rest) => <Link to="/lab" search={{ run: String(mine.source_run_id) }} {...rest} />}>{texts.case.lab}</Button> : null}
        <GatedButton scope="eval" variant={isDraft ? "default" : "filled"} loading={saving.isBusy} reason={reason} onClick={() => submit(mine, texts.case.saved)}>{texts.case.save}</GatedButton>
        {isDraft ? <GatedButton scope="eval" variant="filled" loading={saving.isBusy} reason={reason} onClick={() => submit({ ...mine, status: "ready" }, texts.case.confirmed)}>{texts.case.confirm}</GatedButton> : null}
      </Group>
    </Stack>
  );
}
