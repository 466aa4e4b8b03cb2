/** What a server without runs shows: a first conversation, a connected client, a first agent of one's own. */
import { Box, Button, Group, Text, Title } from "@mantine/core";
import { IconMessage, IconPlug, IconRobot } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { useMay } from "../../api/caller";
import { home as texts } from "../../texts/home";
import { DemoData } from "../../ui/DemoData";
import { CopyIcon } from "../../ui/parts";
import { Snippets } from "../../ui/Snippets";
import classes from "./Home.module.css";

function Card({ icon, title, help, children }: { icon: ReactNode; title: string; help: string; children: ReactNode }) {
  return (
    <section className={classes.card} aria-label={title}>
      <Group gap="xs" mb={4} wrap="nowrap">{icon}<Title order={3} size="h2">{title}</Title></Group>
      <Text size="sm" c="dimmed" mb="md">{help}</Text>
      {children}
    </section>
  );
}

const SHOWN_AGENTS = 9;

/** A way to a conversation with each of the first agents. */
function AgentLinks({ agents }: { agents: readonly string[] }) {
  if (agents.length < 2) return null;
  return (
    <>
      <Text size="sm" c="dimmed" mt="md" mb={6}>{texts.chatAgents}</Text>
      <Group gap={6}>
        {agents.slice(0, SHOWN_AGENTS).map((it) => <Button key={it} size="compact-sm" h={26} renderRoot={(props) => <Link to="/chat/{-$threadId}" search={{ agent: it }} {...props} />}>{it}</Button>)}
        {agents.length > SHOWN_AGENTS ? <Button size="compact-sm" h={26} variant="subtle" renderRoot={(props) => <Link to="/agents" {...props} />}>{texts.moreAgents(agents.length - SHOWN_AGENTS)}</Button> : null}
      </Group>
    </>
  );
}

export function FirstStart({ agents, isFirst, onHide }: { agents: readonly string[]; isFirst: boolean; onHide: () => void }) {
  const may = useMay();
  const agent = agents[0] ?? "default";
  const command = texts.command(Number(location.port || 38080) + 1);
  return (
    <Box mb="lg">
      <Group justify="space-between" align="flex-start" mb="md">
        <div>
          <Title order={2}>{texts.firstTitle}</Title>
          {isFirst ? <Text size="sm" c="dimmed">{texts.firstHelp}</Text> : null}
        </div>
        {isFirst ? null : <Button variant="subtle" onClick={onHide}>{texts.hideFirst}</Button>}
      </Group>
      <div className={classes.cards}>
        {may("invoke") ? (
          <Card icon={<IconMessage size={18} aria-hidden />} title={texts.chatTitle} help={texts.chatHelp}>
            <Button variant="filled" renderRoot={(props) => <Link to="/chat/{-$threadId}" search={{ agent }} {...props} />}>{texts.chatAction}</Button>
            <AgentLinks agents={agents} />
          </Card>
        ) : null}
        <Card icon={<IconPlug size={18} aria-hidden />} title={texts.connectTitle} help={texts.connectHelp}><Snippets agent={agent} /></Card>
        <Card icon={<IconRobot size={18} aria-hidden />} title={texts.makeTitle} help={texts.makeHelp}>
          <Box pos="relative"><Box pos="absolute" top={4} right={4}><CopyIcon value={texts.agentFile} label="Copy agent.py" /></Box><pre className={classes.code} tabIndex={0}>{texts.agentFile}</pre></Box>
          <Group gap={4} mt="xs" wrap="nowrap"><pre className={classes.code} style={{ flex: 1 }}>{command}</pre><CopyIcon value={command} label="Copy the command" /></Group>
          <Text size="xs" c="dimmed" mt={4}>{texts.commandHelp}</Text>
          {may("config") ? <Button mt="md" renderRoot={(props) => <Link to="/agents" {...props} />}>{texts.makeAction}</Button> : null}
        </Card>
      </div>
      <Box mt="md"><DemoData /></Box>
    </Box>
  );
}
