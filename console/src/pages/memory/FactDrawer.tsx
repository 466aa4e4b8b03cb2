/** One fact: its text, where it came from, and what can be done with it. */
import { Alert, Button, Checkbox, Group, NumberInput, Stack, Textarea, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import { api, need, type Schemas } from "../../api/client";
import { ApiError, isGone } from "../../api/errors";
import { refreshKinds } from "../../api/queries";
import { memory as texts } from "../../texts/memory";
import { ui } from "../../texts/ui";
import { FormDrawer } from "../../ui/FormDialogs";
import { formatTime } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone } from "../../ui/notices";
import { CopyableId, ShortId } from "../../ui/parts";
import { Refusal } from "../../ui/Problems";
import { SafeText } from "../../ui/SafeText";
import { useSettings } from "../../ui/settings";
import { Empty, Failure, Loading } from "../../ui/states";
import classes from "./memory.module.css";
import { ownerQuery, readDays, type Owner } from "./owner";

export type Fact = Schemas["FactView"];

/** What the drawer says instead of an id when a fact is to be added. */
export const NEW = "+";

function loadFact(owner: Owner, id: string, signal?: AbortSignal): Promise<Fact> {
  return need(api.GET("/v1/memory/facts/{fact_id}", { signal, params: { path: { fact_id: id }, query: ownerQuery(owner) } }));
}

const isChangedMeanwhile = (error: unknown) => error instanceof ApiError && error.code === "fact_conflict";

export function FactForm({ owner, fact, onDone }: { owner: Owner; fact?: Fact; onDone: (id?: string) => void }) {
  const [text, setText] = useState(fact?.text ?? "");
  const [days, setDays] = useState<number | string>("");
  const [isLasting, setLasting] = useState(false);
  const { timeZone } = useSettings();
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  // What was read when the edit began; a later text is shown before it is replaced.
  const [seen, setSeen] = useState(fact?.updated_at ?? null);
  const [theirs, setTheirs] = useState<Fact | null>(null);
  const save = async () => {
    setBusy(true);
    setError(null);
    const ttl_ms = isLasting ? null : readDays(days);
    // An edit without a new time keeps the one that the fact has.
    const edit = isLasting || ttl_ms !== null ? { text, ttl_ms, expected_updated_at: seen } : { text, expected_updated_at: seen };
    const query = ownerQuery(owner);
    try {
      const saved = await need(fact === undefined
        ? api.POST("/v1/memory/facts", { params: { query }, body: { text, ttl_ms } })
        : api.PUT("/v1/memory/facts/{fact_id}", { params: { path: { fact_id: fact.id }, query }, body: edit }));
      noteDone(fact === undefined ? texts.added : texts.saved);
      await refreshKinds("memory", "audit");
      onDone(saved.id);
    } catch (caught) {
      setError(caught);
      const now = fact !== undefined && isChangedMeanwhile(caught) ? await loadFact(owner, fact.id).catch(() => null) : null;
      if (now !== null) {
        setTheirs(now);
        setSeen(now.updated_at);
        setError(null);
      }
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="sm">
      {theirs === null ? null : <Alert color="yellow" role="alert" title={texts.theirs}><SafeText text={theirs.text} label={texts.theirs} maxHeight={200} /></Alert>}
      <Textarea data-autofocus label={texts.text} description={fact === undefined ? texts.addHelp : undefined} required autosize minRows={3} maxRows={16} value={text} onChange={(event) => setText(event.currentTarget.value)} />
      <NumberInput label={texts.days} description={fact?.expires_at == null ? texts.daysHelp : texts.daysKept(formatTime(fact.expires_at, timeZone))} min={0} hideControls value={days} onChange={setDays} disabled={isLasting} maw={260} />
      {fact?.expires_at == null ? null : <Checkbox label={texts.lasting} checked={isLasting} onChange={(event) => setLasting(event.currentTarget.checked)} />}
      <Refusal error={error} />
      <Group gap="xs" justify="flex-end">
        <Button onClick={() => onDone()}>{ui.cancel}</Button>
        <GatedButton scope={owner.kind === "project" ? "decide" : "invoke"} variant="filled" loading={isBusy} reason={text.trim() === "" ? texts.text : undefined} onClick={() => void save()}>{texts.save}</GatedButton>
      </Group>
    </Stack>
  );
}

function Origin({ fact }: { fact: Fact }) {
  const { timeZone } = useSettings();
  const facts: [string, ReactNode][] = [
    [texts.origin, texts.origins[fact.origin] ?? fact.origin],
    [texts.by, fact.by ?? ui.none],
    [texts.agent, fact.agent_id === null ? ui.none : <Link key="a" to="/agents/$agentId" params={{ agentId: fact.agent_id }}>{fact.agent_id}</Link>],
    [texts.run, fact.run_id === null ? ui.none : <Link key="r" to="/runs/$runId" params={{ runId: fact.run_id }}><ShortId id={fact.run_id} /></Link>],
    [texts.thread, fact.thread_id === null ? ui.none : <Link key="t" to="/threads/$threadId" params={{ threadId: fact.thread_id }}><ShortId id={fact.thread_id} /></Link>],
    [texts.created, formatTime(fact.created_at, timeZone)],
    [texts.updated, formatTime(fact.updated_at, timeZone)],
    [texts.expires, fact.expires_at === null ? texts.never : formatTime(fact.expires_at, timeZone)],
  ];
  return <dl className={classes.facts}>{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

type Props = { owner: Owner; id: string | undefined; onClose: () => void; onForget: (fact: Fact) => void };

function Details({ owner, fact, onForget }: { owner: Owner; fact: Fact; onForget: (fact: Fact) => void }) {
  const [isEditing, setEditing] = useState(false);
  const scope = owner.kind === "project" ? "decide" : "invoke";
  if (isEditing) return <FactForm owner={owner} fact={fact} onDone={() => setEditing(false)} />;
  return (
    <Stack gap="md">
      <SafeText text={fact.text} label={texts.fact} />
      <div><Title order={2} mb={4}>{texts.came}</Title><Origin fact={fact} /></div>
      <Group gap="xs">
        <GatedButton scope={scope} onClick={() => setEditing(true)}>{texts.edit}</GatedButton>
        <GatedButton scope={scope} color="red" variant="outline" onClick={() => onForget(fact)}>{texts.forget}</GatedButton>
      </Group>
    </Stack>
  );
}

export function FactDrawer({ owner, id, onClose, onForget }: Props) {
  const isNew = id === NEW;
  const { data, error, refetch } = useQuery({
    queryKey: ["memory", "fact", id, owner],
    queryFn: ({ signal }) => loadFact(owner, id ?? "", signal),
    enabled: id !== undefined && !isNew,
  });
  const title = isNew ? texts.add : <CopyableId id={id ?? ""} chars={30} />;
  return (
    <FormDrawer opened={id !== undefined} onClose={onClose} title={title} closeButtonProps={{ "aria-label": ui.close }}>
      {id === undefined ? null : isNew ? <FactForm owner={owner} onDone={onClose} /> : isGone(error) ? <Empty title={texts.gone} /> : error !== null ? <Failure error={error} onRetry={() => void refetch()} /> : data === undefined ? <Loading /> : <Details key={data.id} owner={owner} fact={data} onForget={onForget} />}
    </FormDrawer>
  );
}
