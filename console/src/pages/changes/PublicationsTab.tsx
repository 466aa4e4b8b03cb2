/** The history of publications: compare any two, go back to one, try one as a canary. */
import { Alert, Button, Checkbox, Drawer, Group, List, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, need } from "../../api/client";
import { nameCanary, type Head, type Publication } from "../../api/config";
import { usePagedList } from "../../api/paging";
import { refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { RecordDiff } from "../../ui/FieldDiff";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Age, JsonText } from "../../ui/parts";
import { Refusal } from "../../ui/Problems";
import { Empty, Failure, Loading } from "../../ui/states";
import { Tag } from "../../ui/Tag";
import { DEFAULT_PLAN, writePlan } from "./canaryPlan";
import { PlanFields } from "./PlanFields";

const route = getRouteApi("/changes");

/** What going back undoes: the publications in between, each with who made it. */
function Undone({ publications }: { publications: readonly Publication[] }) {
  if (publications.length === 0) return null;
  return (
    <section aria-label={texts.undone(publications.length)}>
      <Text size="sm" fw={550} mb={4}>{texts.undone(publications.length)}</Text>
      <List size="sm" mah={180} style={{ overflow: "auto" }} tabIndex={0}>
        {publications.map((it) => (
          <List.Item key={it.publication}>
            {it.publication} <Text span size="sm" c="dimmed">{texts.undoneBy(it.created_by ?? "", (it.changes ?? []).map((one) => `${one.ns}/${one.id}`).join(", "))}</Text> {it.message}
          </List.Item>
        ))}
      </List>
    </section>
  );
}

/** The records in which two publications differ; towards an earlier one also what that undoes. */
function RangeDiff({ from, to }: { from: number; to: number }) {
  const query = useQuery({ queryKey: ["config", "range", from, to], queryFn: ({ signal }) => need(api.GET("/v1/config/publications/{range}/diff", { params: { path: { range: `${from}..${to}` } }, signal })), staleTime: Infinity });
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading rows={3} />;
  if (query.data.records.length === 0) return <Text size="sm" c="dimmed">{texts.nothingChanges}</Text>;
  return <Stack gap="sm"><Undone publications={query.data.undone} />{query.data.records.map((it) => <RecordDiff key={`${it.ns}/${it.id}`} record={it} />)}</Stack>;
}

function nameLive({ publication }: Head): string {
  return publication === null ? texts.head.none : `publication ${publication}`;
}

function Rollback({ no, head, onClose }: { no: number; head: Head; onClose: () => void }) {
  const [message, setMessage] = useState("");
  // What is shown is undone, whatever others publish or try while the dialog is open.
  const [seen, setSeen] = useState(head);
  const [endsCanary, setEndsCanary] = useState(false);
  const [refusal, setRefusal] = useState<unknown>(null);
  const canary = seen.canary === null ? null : nameCanary(seen.canary);
  const hasMoved = seen.publication !== head.publication;
  const isOtherCanary = canary?.publication !== head.canary?.publication || canary?.since !== head.canary?.since;
  const isReady = !hasMoved && !isOtherCanary && (canary === null || endsCanary);
  const rollBack = async () => {
    setRefusal(null);
    try {
      const done = await need(api.POST("/v1/config/rollback", { body: { publication: no, expected_head: seen.publication ?? 0, message: message.trim(), over_canary: endsCanary ? canary : null } }));
      noteDone(texts.rolledBack(done.publication));
      onClose();
      await refreshKinds("config", "agent", "audit", "model");
    } catch (error) {
      setRefusal(error);
      await refreshKinds("config");
    }
  };
  const lookAgain = () => {
    setSeen(head);
    setEndsCanary(false);
    setRefusal(null);
  };
  return (
    <Modal opened onClose={onClose} title={texts.rollbackTitle(no)} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); if (isReady) void rollBack(); }}>
        <Stack gap="sm">
          <Text size="sm" c="dimmed">{texts.rollbackHelp}</Text>
          {seen.publication === null ? null : <RangeDiff from={seen.publication} to={no} />}
          {seen.canary === null ? null : <Checkbox label={texts.overCanary(seen.canary.publication, seen.canary.plan.percent)} description={texts.overCanaryHelp} checked={endsCanary} onChange={(event) => setEndsCanary(event.currentTarget.checked)} />}
          {!hasMoved && !isOtherCanary ? <Refusal error={refusal} /> : (
            <Alert color="yellow" title={texts.liveMeanwhile} role="alert">
              <Group justify="space-between"><Text size="sm">{hasMoved ? texts.liveMeanwhileHelp(nameLive(seen), nameLive(head)) : texts.canaryMeanwhileHelp}</Text><Button onClick={lookAgain}>{texts.lookAgain}</Button></Group>
            </Alert>
          )}
          <TextInput label={texts.message} description={texts.messageHelp} value={message} data-autofocus onChange={(event) => setMessage(event.currentTarget.value)} />
          <Group justify="flex-end" gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled" color="red.9" disabled={!isReady}>{texts.rollbackNow}</Button></Group>
        </Stack>
      </form>
    </Modal>
  );
}

function TryCanary({ no, onClose }: { no: number; onClose: () => void }) {
  const [plan, setPlan] = useState(DEFAULT_PLAN);
  const begin = async () => {
    try {
      await need(api.POST("/v1/config/canary", { body: { publication: no, ...writePlan(plan) } }));
      noteDone(texts.canaryBegun(no, plan.percent));
      onClose();
      await refreshKinds("config", "audit");
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <Modal opened onClose={onClose} title={texts.tryTitle(no)} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); void begin(); }}>
        <PlanFields plan={plan} onChange={setPlan} />
        <Group justify="flex-end" gap="xs" mt="md"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled">{texts.begin}</Button></Group>
      </form>
    </Modal>
  );
}

function PublicationDetails({ no, head }: { no: number; head: Head }) {
  const [action, setAction] = useState<"rollback" | "canary" | null>(null);
  const query = useQuery({ queryKey: ["config", "publication", no], queryFn: ({ signal }) => need(api.GET("/v1/config/publications/{no}", { params: { path: { no: String(no) } }, signal })), staleTime: Infinity });
  if (query.isError) return <Failure error={query.error} />;
  if (query.data === undefined) return <Loading />;
  const it = query.data;
  const isLive = no === head.publication;
  return (
    <Stack gap="md">
      <Text size="sm">{it.message || <Text span c="dimmed">{ui.none}</Text>}</Text>
      <Group gap="md"><Text size="xs" c="dimmed">{it.created_by} · <Age at={it.created_at} /> · {it.origin ?? "api"}</Text><Link to="/runs" search={{ publication: String(no) }}>{texts.runs}</Link></Group>
      <Group gap="xs">
        <GatedButton scope="publish" reason={isLive ? texts.isLive : undefined} onClick={() => setAction("rollback")}>{texts.rollback}</GatedButton>
        <GatedButton scope="publish" reason={isLive ? texts.isLive : undefined} onClick={() => setAction("canary")}>{texts.tryIt}</GatedButton>
      </Group>
      {it.parent === null || it.parent === undefined ? null : <RangeDiff from={it.parent} to={no} />}
      <JsonText value={it} />
      {action === "rollback" ? <Rollback no={no} head={head} onClose={() => setAction(null)} /> : null}
      {action === "canary" ? <TryCanary no={no} onClose={() => setAction(null)} /> : null}
    </Stack>
  );
}

function listColumns(head: Head): readonly DataColumn<Publication>[] {
  return [
    {
      id: "number", header: texts.columns.number, sortValue: (it) => it.publication,
      cell: (it) => (
        <Group gap={6} wrap="nowrap">
          <Link to="/changes" search={{ tab: "publications", publication: String(it.publication) }}>{it.publication}</Link>
          {it.publication === head.publication ? <Tag color="green">{texts.isLive}</Tag> : null}
          {it.publication === head.canary?.publication ? <Tag color="blue">{texts.isCanary}</Tag> : null}
        </Group>
      ),
    },
    { id: "message", header: texts.columns.message, cell: (it) => it.message || <Text span c="dimmed" size="sm">{ui.none}</Text>, sortValue: (it) => it.message ?? "" },
    { id: "records", header: texts.columns.records, cell: (it) => { const names = (it.changes ?? []).map((one) => `${one.ns}/${one.id}`).join(", "); return <span title={names}>{names}</span>; } },
    { id: "by", header: texts.columns.by, cell: (it) => it.created_by, sortValue: (it) => it.created_by },
    { id: "origin", header: texts.columns.origin, cell: (it) => it.origin ?? "api", sortValue: (it) => it.origin ?? "api" },
    { id: "at", header: texts.columns.at, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at },
  ];
}

export function PublicationsTab({ head }: { head: Head }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const list = usePagedList<Publication>(["config", "publications"], async (cursor, signal) => {
    const before = cursor === undefined ? undefined : Number(cursor);
    const page = await need(api.GET("/v1/config/publications", { params: { query: { before, limit: 50 } }, signal }));
    return { items: page.items, next_cursor: page.next_before === undefined ? null : String(page.next_before) };
  });
  const columns = useMemo(() => listColumns(head), [head]);
  const range = search.from === undefined || search.to === undefined ? null : ([Number(search.from), Number(search.to)] as const);
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  return (
    <>
      <DataTable
        label={texts.tabs.publications}
        rows={list.rows}
        columns={columns}
        rowId={(it) => String(it.publication)}
        address={{ sort: search.sort, columns: search.columns }}
        onAddress={change}
        onOpen={(it) => change({ publication: String(it.publication) })}
        selectionActions={(chosen) => {
          const [a, b] = chosen.map((it) => it.publication).sort((first, second) => first - second);
          return <Button disabled={chosen.length !== 2} title={texts.compareTwo} onClick={() => change({ from: String(a), to: String(b) })}>{texts.compare}</Button>;
        }}
        toolbar={list.rows.length < 2 ? null : <Text size="xs" c="dimmed">{texts.compareTwo}</Text>}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={() => void list.fetchNextPage()}
        empty={<Empty title={texts.emptyPublications} action={<Button variant="filled" renderRoot={(props) => <Link to="/agents" {...props} />}>{texts.openAgents}</Button>} command={texts.publicationsCommand}>{texts.emptyPublicationsHelp}</Empty>}
      />
      <Drawer opened={range !== null} onClose={() => change({ from: undefined, to: undefined })} title={range === null ? "" : texts.comparing(...range)} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
        {range === null ? null : <RangeDiff from={range[0]} to={range[1]} />}
      </Drawer>
      <Drawer opened={search.publication !== undefined && range === null} onClose={() => change({ publication: undefined })} title={search.publication === undefined ? "" : texts.details(Number(search.publication))} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
        {search.publication === undefined ? null : <PublicationDetails no={Number(search.publication)} head={head} />}
      </Drawer>
    </>
  );
}
