/** What is changed in a recorded run, the replay of it, and what becomes of the change: a draft, or a case. */
import { Button, Checkbox, Grid, Group, NumberInput, Select, Stack, Text, Textarea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { useMay } from "../../api/caller";
import { capabilitiesQuery, loadFacts, loadRecord } from "../../api/config";
import { createDraft, makeWrite, saveRecord } from "../../api/drafts";
import { refreshKinds } from "../../api/queries";
import { agent } from "../../texts/agent";
import { evals } from "../../texts/evals";
import { lab as texts } from "../../texts/lab";
import { CaptureDialog } from "../../ui/evals/CaptureDialog";
import { LIVE } from "../../ui/evals/sources";
import { useSources } from "../../ui/evals/useSources";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Panel } from "../../ui/Panel";
import { Refusal } from "../../ui/Problems";
import { SchemaForm, ValueForm } from "../../ui/SchemaForm";
import { isObject, type JsonObject, type JsonSchema } from "../../ui/schema/model";
import { Loading } from "../../ui/states";
import { LabResult } from "./LabResult";
import { replayRun, type Recording, type Replayed } from "./replaying";
import { agentOf, hasChanges, listChanges, makeForm, modelOf, rulesOf, writeReplay, type LabForm } from "./variant";

/** Runs replays one at a time; leaving the page stops waiting for one. */
function useReplay(recording: Recording) {
  const [result, setResult] = useState<Replayed | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const waiting = useRef<AbortController | null>(null);
  useEffect(() => () => waiting.current?.abort(), []);
  const run = async (form: LabForm) => {
    waiting.current?.abort();
    const own = new AbortController();
    waiting.current = own;
    setBusy(true);
    setError(null);
    setResult(null);
    try {
      const found = await replayRun(recording.run.run_id, writeReplay(form, recording), own.signal);
      if (!own.signal.aborted) setResult(found);
    } catch (caught) {
      if (!own.signal.aborted) setError(caught);
    } finally {
      if (waiting.current === own) setBusy(false);
    }
  };
  const stop = () => {
    waiting.current?.abort();
    waiting.current = null;
    setBusy(false);
  };
  return { result, error, isBusy, run, stop };
}

/** Writes the changes of the agent, and the texts of tools, into a new draft. */
async function saveAsDraft(form: LabForm, recording: Recording): Promise<string> {
  const agentId = agentOf(recording);
  let draft = await createDraft(texts.draftTitle(agentId));
  const put = async (namespace: "agents" | "tools", id: string, change: (live: JsonObject) => JsonObject) => {
    const [live, facts] = await Promise.all([loadRecord(namespace, id), loadFacts(namespace, id)]);
    draft = await saveRecord(draft, namespace, id, makeWrite(facts.owner, live, { ...live, ...change(live) }));
  };
  if (Object.keys(listChanges(form, recording)).length > 0) await put("agents", agentId, (live) => listChanges(form, recording, live));
  for (const [tool, description] of Object.entries(form.tools)) await put("tools", tool, () => ({ description }));
  await refreshKinds("config");
  return draft.id;
}

const FIELDS = { type: "object", additionalProperties: true } as const;

type RulesProps = { rules: JsonObject | null; schema: JsonSchema | undefined; tools: readonly string[]; onChange: (rules: JsonObject) => void };

/** The permission rules of the agent, in the form that its own page has for them. */
function RulesField({ rules, schema, tools, onChange }: RulesProps) {
  const [isOpen, setOpen] = useState(false);
  if (schema === undefined) return null;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{agent.rules.title}</summary>
      {!isOpen ? null : (
        <Stack gap="xs" mt="xs">
          <Text size="xs" c="dimmed">{rules === null ? agent.rules.noPlugin : agent.rules.help}</Text>
          {rules === null ? <Group><Button onClick={() => onChange({ rules: [] })}>{agent.rules.turnOn}</Button></Group> : <SchemaForm label={agent.rules.title} schema={schema} value={rules} suggestions={{ tool: tools }} onChange={onChange} />}
        </Stack>
      )}
    </details>
  );
}

function ChangeForm({ form, recording, onChange }: { form: LabForm; recording: Recording; onChange: (part: Partial<LabForm>) => void }) {
  const may = useMay();
  const sources = useSources(form.source);
  const { data: capabilities } = useQuery({ ...capabilitiesQuery, enabled: may("config"), retry: false });
  const [tool, setTool] = useState<string | null>(null);
  const tools = recording.config.tools ?? [];
  const models = (capabilities?.models ?? []).map((it) => String((it as { id?: unknown }).id ?? ""));
  const described = tools.find((it) => it.id === tool)?.description ?? "";
  const isChanging = form.mode === "what_if" || form.mode === "simulate";
  const describe = (text: string) => {
    if (tool === null) return;
    const { [tool]: _old, ...rest } = form.tools;
    onChange({ tools: text === described ? rest : { ...rest, [tool]: text } });
  };
  return (
    <Stack gap="sm">
      <Select label={texts.mode} data={Object.entries(texts.modes).map(([value, label]) => ({ value, label }))} allowDeselect={false} value={form.mode} onChange={(value) => onChange({ mode: (value ?? "what_if") as LabForm["mode"] })} />
      <Group grow gap="xs" align="flex-start">
        <NumberInput label={texts.fromStep} description={texts.fromStepHelp} inputWrapperOrder={["label", "input", "description", "error"]} min={1} max={Math.max(1, recording.steps?.length ?? 1)} value={form.fromStep} onChange={(value) => onChange({ fromStep: Math.max(1, Number(value) || 1) })} />
        {isChanging ? <Select label={texts.source} data={sources} allowDeselect={false} value={form.source} onChange={(value) => onChange({ source: value ?? LIVE })} /> : null}
      </Group>
      {isChanging ? (
        <>
          <Textarea label={texts.prompt} description={texts.promptHelp(agentOf(recording))} autosize minRows={4} maxRows={16} value={form.prompt} onChange={(event) => onChange({ prompt: event.currentTarget.value })} />
          <Select label={texts.model} placeholder={texts.recordedModel(modelOf(recording))} data={models} clearable searchable value={form.model} onChange={(value) => onChange({ model: value })} />
          {tools.length === 0 ? null : <Select label={texts.tool} description={texts.toolHelp} placeholder={texts.chooseTool} data={tools.map((it) => ({ value: it.id, label: Object.hasOwn(form.tools, it.id) ? `${it.id} *` : it.id }))} clearable searchable value={tool} onChange={setTool} />}
          {tool === null ? null : <Textarea aria-label={`${texts.tool} ${tool}`} autosize minRows={2} value={form.tools[tool] ?? described} onChange={(event) => describe(event.currentTarget.value)} />}
          <RulesField rules={form.rules ?? rulesOf(recording)} schema={capabilities?.plugins.find((it) => it.id === "permission")?.config_schemas[0]?.schema} tools={tools.map((it) => it.id)} onChange={(rules) => onChange({ rules })} />
          <details><summary>{texts.fields}</summary><ValueForm label={texts.fieldsHelp} schema={FIELDS} value={form.changes} onChange={(next) => onChange({ changes: isObject(next) ? next : {} })} /></details>
          <Select label={texts.onMiss} data={Object.entries(evals.start.misses).map(([value, label]) => ({ value, label }))} allowDeselect={false} value={form.onMiss} onChange={(value) => onChange({ onMiss: value ?? "diverge" })} />
        </>
      ) : null}
      <Checkbox label={texts.keepGoing} checked={form.keepGoing} onChange={(event) => onChange({ keepGoing: event.currentTarget.checked })} />
    </Stack>
  );
}

export function LabBench({ recording, step }: { recording: Recording; step: number }) {
  const navigate = useNavigate();
  const [form, setForm] = useState(() => makeForm(recording, step));
  const [isCapturing, capturing] = useDisclosure(false);
  const [isSaving, setSaving] = useState(false);
  const { result, error, isBusy, run, stop } = useReplay(recording);
  const isChanged = hasChanges(form, recording);
  const save = async () => {
    setSaving(true);
    try {
      const id = await saveAsDraft(form, recording);
      noteDone(texts.savedDraft);
      await navigate({ to: "/changes", search: { draft: id } });
    } catch (caught) {
      noteError(caught);
    } finally {
      setSaving(false);
    }
  };
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, lg: 4 }}>
        <Panel title={texts.change} actions={<Button variant="subtle" onClick={() => setForm(makeForm(recording, step))}>{texts.reset}</Button>}>
          <form onSubmit={(event) => { event.preventDefault(); void run(form); }}>
            <Stack gap="sm">
              <ChangeForm form={form} recording={recording} onChange={(part) => setForm((now) => ({ ...now, ...part }))} />
              <Group gap="xs">
                <GatedButton scope="eval" type="submit" variant="filled" loading={isBusy} onClick={() => void run(form)}>{texts.run}</GatedButton>
                <GatedButton scope="config" loading={isSaving} reason={isChanged ? undefined : texts.nothingChanged} onClick={() => void save()}>{texts.saveDraft}</GatedButton>
                <GatedButton scope="eval" onClick={capturing.open}>{texts.saveCase}</GatedButton>
              </Group>
            </Stack>
          </form>
        </Panel>
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 8 }}>
        <Stack gap="md">
          <Refusal error={error} />
          {isBusy ? <Panel title={texts.running} actions={<Button onClick={stop}>{texts.stop}</Button>}><Loading rows={4} /></Panel> : null}
          <LabResult recording={recording} result={result} />
        </Stack>
      </Grid.Col>
      <CaptureDialog runId={recording.run.run_id} isOpen={isCapturing} onClose={capturing.close} />
    </Grid>
  );
}

