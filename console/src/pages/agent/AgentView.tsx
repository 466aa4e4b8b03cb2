/** An agent that the caller cannot change, for lack of the scope or of managed configuration: what it is, and where it works. */
import { Button, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { useIsManaged, useMay } from "../../api/caller";
import { api, need } from "../../api/client";
import { isGone } from "../../api/errors";
import { agent as texts } from "../../texts/agent";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { showHidden } from "../../ui/hostileText";
import { Page } from "../../ui/Page";
import { CopyIcon, JsonText } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { UsageTab } from "./HistoryTab";

export function AgentView({ agentId }: { agentId: string }) {
  const may = useMay();
  const isManaged = useIsManaged();
  const { data, error, refetch } = useQuery({
    queryKey: ["agent", "one", agentId],
    queryFn: ({ signal }) => need(api.GET("/v1/agents/{agent_id}", { params: { path: { agent_id: agentId } }, signal })),
  });
  const all = <Button renderRoot={(props) => <Link to="/agents" {...props} />}>{texts.allAgents}</Button>;
  if (isGone(error)) return <Page title={agentId}><Empty title={texts.notFound} action={all}>{texts.notFoundHelp}</Empty></Page>;
  if (error !== null) return <Page title={agentId}><Failure error={error} onRetry={() => void refetch()} /></Page>;
  if (data === undefined) return <Page title={agentId}><Loading /></Page>;
  const actions = (
    <>
      <Button renderRoot={(props) => <Link to="/runs" search={{ agent: agentId }} {...props} />}>{texts.usage.seeRuns}</Button>
      {may("invoke") ? <Button variant="filled" renderRoot={(props) => <Link to="/chat/{-$threadId}" search={{ agent: agentId }} {...props} />}>{texts.chat}</Button> : null}
    </>
  );
  return (
    <Page title={<Group gap={6} component="span" display="inline-flex">{agentId}<CopyIcon value={agentId} label={`${ui.copy} ${agentId}`} /></Group>} name={agentId} description={showHidden(data.description ?? "")} actions={actions}>
      <Stack gap="md">
        <Text size="sm" c="dimmed">{isManaged ? texts.readOnly(shell.needsScope("config")) : texts.readOnly(shell.configOffReason)}</Text>
        {may("config") ? <UsageTab agentId={agentId} /> : null}
        <div><Title order={2} mb="xs">{ui.asJson}</Title><JsonText value={data} maxHeight="60vh" /></div>
      </Stack>
    </Page>
  );
}
