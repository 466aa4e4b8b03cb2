/** Creates or edits a schedule or a trigger, in a form from the schema of its route. */
import { Button, Drawer, Group, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type ReactNode, type RefObject } from "react";

import { bodySchemaQuery } from "../../api/bodySchemas";
import type { Extras } from "../../api/cutSchema";
import { ApiError } from "../../api/errors";
import { agentsQuery } from "../../api/queries";
import { schedules as texts } from "../../texts/schedules";
import { ui } from "../../texts/ui";
import { useConfirm } from "../../ui/confirm";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { SchemaForm } from "../../ui/SchemaForm";
import { isObject, type JsonObject } from "../../ui/schema/model";
import { Failure, Loading } from "../../ui/states";
import { useLeaveGuard } from "../../ui/useLeaveGuard";

/** What the address says instead of an id when a new one is to be made. */
export const NEW = "+";
/** Every zone that the browser knows. */
const ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((it) => it !== "UTC")];

type Props = {
  title: string;
  /** The fields of `first` come before all others. */
  schema: { name: string; extras: Extras; first: readonly string[] };
  /** The id of what is edited; `NEW` makes one; undefined closes the drawer. */
  id: string | undefined;
  /** What the form begins with; undefined while it is not known. */
  spec: JsonObject | undefined;
  /** The revision of what is edited: what another has saved meanwhile is not overwritten. */
  revision?: string;
  save: (spec: JsonObject, id: string | null, revision: string | null) => Promise<string>;
  onClose: (saved?: string) => void;
  beside?: (spec: JsonObject) => ReactNode;
};

export function SpecDrawer(props: Props) {
  const { title, id, spec, onClose } = props;
  const unsaved = useRef(false);
  const confirm = useConfirm();
  const leave = async () => {
    if (unsaved.current && !(await confirm({ title: ui.leaveTitle, body: <Text size="sm">{texts.leaveBody}</Text>, confirm: ui.leave, isDangerous: true }))) return;
    onClose();
  };
  return (
    <Drawer opened={id !== undefined} onClose={() => void leave()} title={title} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {id === undefined ? null : spec === undefined ? <Loading rows={4} /> : <SpecForm key={id} {...props} id={id} spec={spec} unsaved={unsaved} />}
    </Drawer>
  );
}

function SpecForm({ title, schema: { name, extras, first }, id, spec: given, revision: read, save, onClose, beside, unsaved }: Props & { id: string; spec: JsonObject; unsaved: RefObject<boolean> }) {
  const [initial] = useState(given);
  const [revision] = useState(read);
  const [spec, setSpec] = useState(initial);
  const [newId, setNewId] = useState("");
  const [isBad, setBad] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const schema = useQuery(bodySchemaQuery(name, extras));
  const { data: agents = [] } = useQuery(agentsQuery);
  useEffect(() => {
    unsaved.current = spec !== initial;
    return () => { unsaved.current = false; };
  }, [unsaved, spec, initial]);
  useLeaveGuard(() => unsaved.current, () => Promise.resolve(false));
  if (schema.isError) return <Failure error={schema.error} onRetry={() => void schema.refetch()} />;
  if (schema.data === undefined) return <Loading rows={4} />;
  const isNew = id === NEW;
  const others = Object.keys(schema.data.properties as object).filter((it) => !first.includes(it));
  const shared = {
    schema: schema.data, value: spec, onChange: setSpec, onBadText: setBad, multiline: ["input"],
    suggestions: { agent_id: agents.map((it) => it.id), zone: ZONES },
    problems: error instanceof ApiError ? error.problems : [],
  };
  const needsAgent = !isObject(spec.target) || spec.target.agent_id === "" || spec.target.agent_id === undefined;
  const needsInput = isObject(spec.target) && (spec.target.input === "" || spec.target.input == null);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      const saved = await save(spec, isNew ? newId.trim() || null : id, isNew ? null : revision ?? "*");
      unsaved.current = false;
      noteDone(texts.saved);
      onClose(saved);
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="sm">
      {isNew ? <TextInput data-autofocus label={texts.id} description={texts.idHelp} value={newId} onChange={(event) => setNewId(event.currentTarget.value)} /> : null}
      <SchemaForm label={title} {...shared} hide={others} />
      {beside?.(spec)}
      <SchemaForm label={texts.options} {...shared} hide={first} />
      <Refusal error={error} />
      <Group justify="flex-end" gap="xs">
        <Button onClick={() => onClose()}>{ui.cancel}</Button>
        <GatedButton scope="invoke" variant="filled" loading={isBusy} reason={needsAgent ? texts.needsAgent : needsInput ? texts.needsInput : isBad ? ui.fixJson : undefined} onClick={() => void submit()}>{isNew ? texts.create : texts.save}</GatedButton>
      </Group>
    </Stack>
  );
}
