/** Creates or edits one record in a form from the schema of its namespace; it is saved in a draft, or published with a message. */
import { Button, Drawer, Group, Stack, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";

import { callerQuery, queryClient, refreshKinds } from "../../api/queries";
import { draftsQuery, metaListQuery, recordsQuery, schemaQuery, type Namespace } from "../../api/config";
import { createDraft, loadDraft, makeWrite, pickDraft, publishRecord, saveRecord, stripAdded } from "../../api/drafts";
import { ApiError } from "../../api/errors";
import { records as texts } from "../../texts/records";
import { ui } from "../../texts/ui";
import { noteDone } from "../../ui/notices";
import { SchemaForm } from "../../ui/SchemaForm";
import { problemsBelow, type JsonObject, type JsonSchema } from "../../ui/schema/model";
import { Loading } from "../../ui/states";
import { ActionButton, PublishDialog, Refusal } from "./parts";

export const ID_PATTERN = /^[A-Za-z0-9._:@-]{1,128}$/;

type Props = {
  namespace: Namespace;
  /** What a record is called, in texts. */
  name: string;
  /** The id of the record; "" makes a new one; undefined closes the drawer. */
  id: string | undefined;
  onClose: () => void;
  /** What a new record begins with. */
  template?: JsonObject;
  hide?: readonly string[];
  /** Fields that stand first, in this order. */
  first?: readonly string[];
  multiline?: readonly string[];
  suggestions?: Readonly<Record<string, readonly string[]>>;
  /** What a published record leads to. */
  onPublished?: (id: string) => void;
};

export function RecordDrawer(props: Props) {
  const { id, name, onClose } = props;
  const title = id === "" ? texts.newTitle(name) : texts.editTitle(id ?? "");
  return (
    <Drawer opened={id !== undefined} onClose={onClose} title={title} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      {id === undefined ? null : <RecordEditor key={id} {...props} id={id} />}
    </Drawer>
  );
}

function RecordEditor({ namespace, name, id, onClose, template = {}, hide = [], first, multiline, suggestions, onPublished }: Props & { id: string }) {
  const { data: given } = useQuery(schemaQuery(namespace));
  const schema = useMemo(() => (given === undefined ? undefined : orderFields(given, first ?? [])), [given, first]);
  const { data: all } = useQuery(recordsQuery(namespace));
  const { data: metas = [] } = useQuery(metaListQuery(namespace));
  const live = all?.find((it) => it.id === id);
  const [mine, setMine] = useState<JsonObject | null>(id === "" ? { id: "", ...template } : null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const [isPublishing, setPublishing] = useState(false);
  const navigate = useNavigate();
  const { data: caller } = useQuery(callerQuery);
  useEffect(() => {
    if (mine === null && live !== undefined) setMine(stripAdded(live));
  }, [mine, live]);
  const recordId = id === "" ? String(mine?.id ?? "") : id;
  const idProblem = id !== "" ? undefined : !ID_PATTERN.test(recordId) ? texts.badId : all?.some((it) => it.id === recordId) === true ? texts.taken : undefined;
  const problems = useMemo(() => (error instanceof ApiError ? problemsBelow(error.problems, `${namespace}/${recordId}`) : []), [error, namespace, recordId]);
  if (schema === undefined || mine === null) return <Loading rows={4} />;

  const meta = metas.find((it) => it.id === recordId);
  const write = () => makeWrite(meta?.owner, live ?? null, mine);
  const saveInDraft = async () => {
    setBusy(true);
    setError(null);
    try {
      const picked = pickDraft(await queryDrafts(), caller?.id ?? "", namespace, recordId);
      const draft = picked === undefined ? await createDraft(texts.defaultDraftTitle(recordId)) : await loadDraft(picked.id);
      const saved = await saveRecord(draft, namespace, recordId, write());
      noteDone(texts.saved(saved.title));
      await refreshKinds("config");
      onClose();
      void navigate({ to: "/changes", search: { draft: saved.id } as never });
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const publish = async (message: string) => {
    try {
      await publishRecord(namespace, recordId, write(), message, meta);
    } catch (caught) {
      setError(caught);
      throw caught;
    }
    noteDone(texts.published(null));
    await refreshKinds("config", "agent", "audit");
    onClose();
    onPublished?.(recordId);
  };
  return (
    <Stack gap="sm">
      {id === "" ? <TextInput label={texts.id} description={texts.idHelp} required withAsterisk data-autofocus value={recordId} error={recordId === "" ? undefined : idProblem} onChange={(event) => setMine({ ...mine, id: event.currentTarget.value })} /> : null}
      <SchemaForm label={name} schema={schema} value={mine} onChange={setMine} problems={problems} hide={["id", ...hide]} multiline={multiline} suggestions={suggestions} />
      {problems.length > 0 ? null : <Refusal error={error} />}
      <Group justify="flex-end" gap="xs">
        <Button onClick={onClose}>{ui.cancel}</Button>
        <ActionButton scope="config" reason={idProblem} loading={isBusy} onClick={() => void saveInDraft()}>{texts.save}</ActionButton>
        <ActionButton scope="publish" reason={idProblem} variant="filled" onClick={() => setPublishing(true)}>{texts.publish}</ActionButton>
      </Group>
      <PublishDialog title={texts.publishTitle(recordId)} isOpen={isPublishing} onClose={() => setPublishing(false)} onPublish={publish} />
    </Stack>
  );
}

/** A schema whose fields stand in another order. */
function orderFields(schema: JsonSchema, first: readonly string[]): JsonSchema {
  const properties = schema.properties as Record<string, JsonSchema>;
  const names = [...first.filter((it) => it in properties), ...Object.keys(properties).filter((it) => !first.includes(it))];
  return { ...schema, properties: Object.fromEntries(names.map((it) => [it, properties[it] ?? {}])) };
}

/** The drafts as they are now, for the choice of the one to write into. */
export function queryDrafts() {
  return queryClient.fetchQuery({ ...draftsQuery, staleTime: 0 });
}

