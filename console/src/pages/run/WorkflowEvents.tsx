/** The events that a workflow waits for, each with a form made from the schema of the step that waits. */
import { Button, Group, Stack, TextInput } from "@mantine/core";
import { useState } from "react";

import { api, need } from "../../api/client";
import { isDemoThread } from "../../api/demoThreads";
import { refreshKinds } from "../../api/queries";
import { demo } from "../../texts/demo";
import { workflows as texts } from "../../texts/workflows";
import { ui } from "../../texts/ui";
import { FormModal } from "../../ui/FormDialogs";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { ValueForm } from "../../ui/SchemaForm";
import { fillDefaults, type Json, type JsonSchema } from "../../ui/schema/model";
import type { WorkflowView } from "./WorkflowTab";

/** Any JSON value. */
const ANYTHING: JsonSchema = { description: texts.payloadHelp };

type FormProps = { runId: string; name: string; schema: JsonSchema | null; isNamed: boolean; onDone: () => void };

function EventForm({ runId, name: given, schema, isNamed, onDone }: FormProps) {
  const [name, setName] = useState(given);
  const [value, setValue] = useState<Json | undefined>(() => (schema === null ? undefined : (fillDefaults(schema) ?? undefined)));
  const [isBad, setBad] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      await need(api.POST("/v1/runs/{run_id}/events/{name}", { params: { path: { run_id: runId, name: name.trim() } }, body: { payload: value ?? null, event_id: null } }));
      noteDone(texts.sent(name.trim()));
      await refreshKinds("run", "ticket");
      onDone();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const reason = name.trim() === "" ? texts.eventName : isBad ? ui.fixJson : undefined;
  return (
    <Stack gap="sm">
      {isNamed ? null : <TextInput data-autofocus label={texts.eventName} required value={name} onChange={(event) => setName(event.currentTarget.value)} />}
      <ValueForm label={texts.payload} schema={schema ?? ANYTHING} value={value} onChange={setValue} onBadText={setBad} />
      <Refusal error={error} />
      <Group gap="xs" justify="flex-end"><Button onClick={onDone}>{ui.cancel}</Button><GatedButton scope="invoke" variant="filled" loading={isBusy} reason={reason} onClick={() => void submit()}>{texts.send}</GatedButton></Group>
    </Stack>
  );
}

export function WorkflowEvents({ view }: { view: WorkflowView }) {
  const [open, setOpen] = useState<string | null>(null);
  if (view.status === "done") return null;
  const isNamed = open !== null && view.waiting_events.includes(open);
  const schema = view.steps.find((it) => it.event === open)?.event_schema ?? null;
  const close = () => setOpen(null);
  const fixed = isDemoThread(view.thread_id) ? demo.only : undefined;
  return (
    <>
      <Group gap="xs">
        {view.waiting_events.map((it) => <GatedButton key={it} scope="invoke" variant="filled" reason={fixed} onClick={() => setOpen(it)}>{texts.sendEvent(it)}</GatedButton>)}
        <GatedButton scope="invoke" reason={fixed} onClick={() => setOpen("")}>{texts.sendOther}</GatedButton>
      </Group>
      <FormModal opened={open !== null} onClose={close} title={isNamed ? texts.sendEvent(open) : texts.sendOther} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
        {open === null ? null : <EventForm key={open} runId={view.run_id} name={open} schema={schema} isNamed={isNamed} onDone={close} />}
      </FormModal>
    </>
  );
}
