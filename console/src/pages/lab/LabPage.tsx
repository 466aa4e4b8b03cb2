/** The lab: a stored run with one thing changed, and where the two part. */
import { Button, Group, Stack, Table, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, need } from "../../api/client";
import { isGone } from "../../api/errors";
import { lab as texts } from "../../texts/lab";
import { shell } from "../../texts/shell";
import { useChangeSearch } from "../../ui/address";
import classes from "../../ui/evals/evals.module.css";
import { Page } from "../../ui/Page";
import { Age, CopyableId, ShortId, Status } from "../../ui/parts";
import { Empty, Failure, Loading, NeedsScopes } from "../../ui/states";
import { describeRun, lookOf } from "../run/words";
import { LabBench } from "./LabBench";
import { loadRecording } from "./replaying";

const route = getRouteApi("/lab");
const SHOWN_RUNS = 20;

export function LabPage() {
  return <NeedsScopes scopes={["config", "eval"]} isOfConfig={false} title={shell.pages.lab}><Lab /></NeedsScopes>;
}

function Lab() {
  const { run, step } = route.useSearch();
  const change = useChangeSearch();
  const recording = useQuery({ queryKey: ["run", "recording", run], queryFn: ({ signal }) => loadRecording(run ?? "", signal), enabled: run !== undefined, retry: false, refetchInterval: false, staleTime: Infinity });
  if (run === undefined) return <Page title={shell.pages.lab} description={texts.description}><Picker onTake={(id) => change({ run: id })} /></Page>;
  const actions = <><Button variant="subtle" onClick={() => change({ run: undefined, step: undefined })}>{texts.other}</Button><Button renderRoot={(props) => <Link to="/runs/$runId" params={{ runId: run }} {...props} />}>{texts.openRun}</Button></>;
  return (
    <Page title={<>{shell.pages.lab} <CopyableId id={run} chars={22} /></>} name={`${shell.pages.lab} ${run}`} description={texts.description} actions={actions}>
      {isGone(recording.error) ? <Empty title={texts.notFound} /> : recording.isError ? <Failure error={recording.error} onRetry={() => void recording.refetch()} /> : recording.data === undefined ? <Loading /> : <LabBench key={run} recording={recording.data} step={Number(step) || 1} />}
    </Page>
  );
}

function Picker({ onTake }: { onTake: (id: string) => void }) {
  const [typed, setTyped] = useState("");
  const list = useQuery({ queryKey: ["run", "latest", SHOWN_RUNS], queryFn: async ({ signal }) => (await need(api.GET("/v1/runs", { params: { query: { limit: SHOWN_RUNS, order: "desc" } }, signal }))).items });
  const take = () => { if (typed.trim() !== "") onTake(typed.trim()); };
  return (
    <Stack gap="md">
      <form onSubmit={(event) => { event.preventDefault(); take(); }}>
        <Group align="flex-end" gap="xs"><TextInput data-page-filter label={texts.runId} description={texts.pickHelp} w={{ base: "100%", sm: 460 }} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} /><Button type="submit" variant="filled" disabled={typed.trim() === ""}>{texts.take}</Button></Group>
      </form>
      <Title order={2}>{texts.recent}</Title>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.data === undefined ? <Loading rows={4} /> : list.data.length === 0 ? <Text size="sm" c="dimmed">{texts.noRuns}</Text> : (
        <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.recent}>
          <Table miw={600}>
            <Table.Tbody>
              {list.data.map((it) => (
                <Table.Tr key={it.run_id}>
                  <Table.Td><Link to="/lab" search={{ run: it.run_id }}><ShortId id={it.run_id} chars={20} /></Link></Table.Td>
                  <Table.Td>{it.agent_id}</Table.Td>
                  <Table.Td><Status value={lookOf(it)} /></Table.Td>
                  <Table.Td><Text size="sm" c="dimmed" lineClamp={1}>{describeRun(it)}</Text></Table.Td>
                  <Table.Td ta="right"><Age at={it.created_at} /></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </div>
      )}
    </Stack>
  );
}
