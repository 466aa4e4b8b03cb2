/** Facts about the caller, a project or another user: searched, edited, forgotten. */
import { Anchor, Autocomplete, Button, Group, List, Modal, SegmentedControl, Stack, Text } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { useMay } from "../../api/caller";
import { api, need, send, type Schemas } from "../../api/client";
import { root } from "../../api/address";
import { readRefusal } from "../../api/errors";
import { usePagedList } from "../../api/paging";
import { refreshKinds } from "../../api/queries";
import { memory as texts } from "../../texts/memory";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { ShowDemo } from "../../ui/DemoData";
import { Filters } from "../../ui/Filters";
import { GatedButton } from "../../ui/GatedButton";
import { noteError } from "../../ui/notices";
import { Age, ShortId, Until } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";
import { FactDrawer, NEW, type Fact } from "./FactDrawer";
import classes from "./memory.module.css";
import { nameOwner, ownerQuery, readOwner, type Owner } from "./owner";

const route = getRouteApi("/memory");
const TYPING_MS = 400;
type Forgotten = Schemas["ForgottenFacts"];

const COLUMNS: readonly DataColumn<Fact>[] = [
  { id: "text", header: texts.columns.text, cell: (it) => <span className={classes.text} title={it.text}><ShownText text={it.text} /></span>, sortValue: (it) => it.text },
  { id: "origin", header: texts.columns.origin, cell: (it) => texts.origins[it.origin] ?? it.origin, sortValue: (it) => it.origin },
  { id: "from", header: texts.columns.from, cell: (it) => (it.run_id === null ? (it.by ?? it.agent_id ?? ui.none) : <>{it.agent_id} <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link></>) },
  { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} />, sortValue: (it) => it.updated_at },
  { id: "expires", header: texts.columns.expires, cell: (it) => (it.expires_at === null ? texts.never : <Until at={it.expires_at} />), sortValue: (it) => it.expires_at },
];

/** Whose facts are shown; those of other users are for operators. */
function Whose({ owner }: { owner: Owner }) {
  const change = useChangeSearch();
  const may = useMay();
  const { kind } = owner;
  const given = kind === "mine" ? "" : owner.name;
  const [name, setName] = useState(given);
  const { data: owners = [] } = useQuery({
    queryKey: ["memory", "owners", kind],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/memory/owners", { signal, params: { query: { kind: kind === "user" ? "user" : "project" } } }))).items,
    enabled: kind !== "mine" && may("operate"),
  });
  const apply = useDebouncedCallback((next: string) => change({ name: next.trim() === "" ? undefined : next.trim(), open: undefined, q: undefined }), TYPING_MS);
  const choose = (next: string) => { setName(""); change({ whose: next === "mine" ? undefined : next, name: undefined, open: undefined, q: undefined }); };
  const kinds = [{ value: "mine", label: texts.mine }, { value: "project", label: texts.ofProject }, ...(may("operate") ? [{ value: "user", label: texts.ofUser }] : [])];
  return (
    <Group gap="xs">
      <SegmentedControl aria-label={texts.whose} data={kinds} value={kind} onChange={choose} />
      {kind === "mine" ? null : <Autocomplete key={kind} size="xs" aria-label={kind === "project" ? texts.project : texts.user} placeholder={kind === "project" ? texts.project : texts.user} data={owners.map((it) => it.name)} value={name} onChange={(next) => { setName(next); apply(next); }} w={220} />}
    </Group>
  );
}

/** What was forgotten, and where its text still stands. */
function Held({ gone, onClose }: { gone: Forgotten | null; onClose: () => void }) {
  return (
    <Modal opened={gone !== null} onClose={onClose} title={texts.forgotten(gone?.facts.length ?? 0)} closeButtonProps={{ "aria-label": ui.close }}>
      {gone === null ? null : (
        <Stack gap="sm">
          <Text size="sm">{gone.is_erased ? texts.erased : texts.notErased}</Text>
          <Text size="sm" role="status">{texts.stillHeld(gone.transcripts.length)}</Text>
          {gone.transcripts.length === 0 ? null : (
            <List size="sm" mah={300} style={{ overflow: "auto" }} tabIndex={0}>
              {gone.transcripts.map((it) => (
                <List.Item key={`${it.thread_id} ${it.run_id ?? ""}`}>
                  <Link to="/threads/$threadId" params={{ threadId: it.thread_id }}><ShortId id={it.thread_id} chars={24} /></Link> <Text span size="xs" c="dimmed">{texts.messages(it.message_ids.length)}</Text>
                  {it.eval_objects == null || it.eval_objects === 0 ? null : <Text size="xs">{texts.evalObjects(it.eval_objects)}</Text>}
                </List.Item>
              ))}
            </List>
          )}
          {gone.is_search_complete ? null : <Text size="sm" c="var(--mantine-color-error)">{texts.incomplete}</Text>}
          <Group justify="flex-end"><Button data-autofocus onClick={onClose}>{ui.close}</Button></Group>
        </Stack>
      )}
    </Modal>
  );
}

/** Downloads every fact, a JSON document per line; a link would not send the token. */
async function downloadFacts(owner: Owner): Promise<void> {
  try {
    const query = new URLSearchParams(ownerQuery(owner)).toString();
    const response = await send(new Request(`${root}/v1/memory/export${query === "" ? "" : `?${query}`}`));
    if (!response.ok) throw await readRefusal(response);
    const address = URL.createObjectURL(await response.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = `facts-${nameOwner(owner)}.ndjson`;
    link.click();
    URL.revokeObjectURL(address);
  } catch (error) {
    noteError(error);
  }
}

function Engine() {
  const { data } = useQuery({ queryKey: ["memory", "status"], queryFn: ({ signal }) => need(api.GET("/v1/memory/status", { signal })), staleTime: 60_000 });
  if (data === undefined) return null;
  return <Text size="xs" c="dimmed" mb="xs">{data.has_vectors ? texts.vectors : texts.lexical(data.vectors_problem)}</Text>;
}

export function Facts() {
  const search = route.useSearch();
  const { q, open, sort, columns } = search;
  const owner = readOwner(search);
  const change = useChangeSearch();
  const confirm = useConfirm();
  const isNamed = owner.kind === "mine" || owner.name !== "";
  const [gone, setGone] = useState<Forgotten | null>(null);
  const list = usePagedList<Fact>(["memory", "facts", owner, q], (cursor, signal) => need(api.GET("/v1/memory/facts", { signal, params: { query: { ...ownerQuery(owner), query: q, cursor, limit: 100 } } })), isNamed);
  const scope = owner.kind === "project" ? "decide" : "invoke";
  const query = ownerQuery(owner);
  const forget = async (title: string, act: () => Promise<Forgotten>) => {
    if (!(await confirm({ title, body: <Text size="sm">{texts.forgetBody}</Text>, confirm: texts.forget, isDangerous: true }))) return;
    try {
      const forgotten = await act();
      change({ open: undefined });
      setGone(forgotten);
      await refreshKinds("memory", "audit");
    } catch (error) {
      noteError(error);
    }
  };
  const forgetOne = (fact: Fact) => void forget(texts.forgetTitle, () => need(api.DELETE("/v1/memory/facts/{fact_id}", { params: { path: { fact_id: fact.id }, query } })));
  const forgetAll = () => void forget(texts.forgetAllTitle(nameOwner(owner)), () => need(api.DELETE("/v1/memory/facts", { params: { query } })));
  const add = <GatedButton scope={scope} variant="filled" onClick={() => change({ open: NEW })}>{texts.add}</GatedButton>;
  const isEmpty = list.rows.length === 0 && q === undefined;
  return (
    <>
      <Group gap="xs" mb="xs"><Whose owner={owner} /></Group>
      {isEmpty ? null : <Engine />}
      {!isNamed ? <Empty title={texts.needsName} /> : list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={texts.views.facts}
          rows={list.rows}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ open: it.id })}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          toolbar={isEmpty ? null : (
            <>
              <Filters values={{ q }} onChange={change} text={{ name: "q", placeholder: texts.search }} />
              {add}
              <Button onClick={() => void downloadFacts(owner)}>{texts.export}</Button>
              <GatedButton scope={scope} onClick={forgetAll}>{texts.forgetAll}</GatedButton>
            </>
          )}
          empty={q === undefined ? <Empty title={texts.empty} action={<>{add}<ShowDemo onShow={() => change({ whose: "project", name: "demo-data-orders" })} /></>} command={texts.command}>{texts.emptyHelp}</Empty> : <Empty title={texts.emptyFound} action={<Anchor component="button" onClick={() => change({ q: undefined })}>{ui.clear}</Anchor>} />}
          height="calc(100vh - 290px)"
        />
      )}
      <FactDrawer owner={owner} id={open} onClose={() => change({ open: undefined })} onForget={forgetOne} />
      <Held gone={gone} onClose={() => setGone(null)} />
    </>
  );
}
