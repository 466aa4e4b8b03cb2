/** Who the caller is, how the console looks in this browser, its keys, and what this server is. */
import { Anchor, Button, Group, Kbd, PasswordInput, SegmentedControl, Select, SimpleGrid, Stack, Table, Text, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import { IconCheck, IconLock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState, type ReactNode } from "react";

import { root } from "../../api/address";
import type { Scope } from "../../api/caller";
import { callerQuery, queryClient, systemInfoQuery } from "../../api/queries";
import { currentToken, forgetToken, replaceToken } from "../../api/token";
import { KEYS } from "../../keys";
import { settings as texts } from "../../texts/settings";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { DemoData } from "../../ui/DemoData";
import { formatDuration, formatTime } from "../../ui/format";
import { noteDone } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Panel } from "../../ui/Panel";
import { CopyableId, useNow } from "../../ui/parts";
import { useSettings } from "../../ui/settings";
import { Tag } from "../../ui/Tag";

const OWN_ZONE = "";

function Row({ name, children }: { name: string; children: ReactNode }) {
  return <Group gap="sm" align="flex-start"><Text size="sm" c="dimmed" w={120} flex="none">{name}</Text><Text size="sm" component="div" flex="1 1 160px" miw={0} style={{ overflowWrap: "anywhere" }}>{children}</Text></Group>;
}

function CallerPanel() {
  const { data } = useQuery(callerQuery);
  return (
    <Panel title={texts.caller} description={texts.callerHelp}>
      {data === undefined ? null : (
        <Stack gap="xs">
          <Row name={texts.id}><CopyableId id={data.id} chars={40} /></Row>
          <Row name={texts.tenant}>{data.tenant_id ?? texts.noTenant}</Row>
          <Row name={texts.scopes}>
            <Stack gap={4}>
              {(Object.keys(texts.scopeHelp) as Scope[]).map((scope) => {
                const has = data.scopes.includes(scope);
                return (
                  <Group key={scope} gap={8}>
                    <Tag color={has ? "green" : "gray"} icon={has ? <IconCheck size={11} aria-hidden /> : <IconLock size={11} aria-hidden />}>{scope}</Tag>
                    <Text span size="xs" c="dimmed">{has ? texts.scopeHelp[scope] : texts.hasNot}</Text>
                  </Group>
                );
              })}
            </Stack>
          </Row>
        </Stack>
      )}
    </Panel>
  );
}

function TokenPanel() {
  const [token, setToken] = useState("");
  const [has, setHas] = useState(currentToken() !== null);
  // Everything that was fetched belongs to the caller before.
  const use = (given: string | null) => {
    if (given === null) forgetToken();
    else replaceToken(given);
    setToken("");
    setHas(given !== null);
    if (given === null) noteDone(texts.forgotten);
    void queryClient.resetQueries();
  };
  return (
    <Panel title={texts.token} actions={has ? <Button onClick={() => use(null)}>{texts.forget}</Button> : undefined}>
      <form onSubmit={(event) => { event.preventDefault(); if (token.trim() !== "") use(token.trim()); }}>
        <Text size="sm" mb="xs" role="status">{has ? texts.hasToken : texts.noToken}</Text>
        <Group align="flex-end" gap="xs"><PasswordInput size="xs" label={texts.newToken} value={token} autoComplete="off" flex={1} miw={180} onChange={(event) => setToken(event.currentTarget.value)} /><Button type="submit" disabled={token.trim() === ""}>{texts.saveToken}</Button></Group>
      </form>
    </Panel>
  );
}

function LookPanel() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const { timeZone, density, change } = useSettings();
  const now = useNow(1_000);
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zones = useMemo(() => [{ value: OWN_ZONE, label: texts.ownZone(own) }, ...[...new Set(["UTC", ...Intl.supportedValuesOf("timeZone")])].map((it) => ({ value: it, label: it }))], [own]);
  const list = (names: Record<string, string>) => Object.entries(names).map(([value, label]) => ({ value, label }));
  return (
    <Panel title={texts.looks}>
      <Stack gap="sm">
        <Row name={texts.theme}><SegmentedControl aria-label={texts.theme} data={list(texts.themes)} value={colorScheme} onChange={(value) => setColorScheme(value as MantineColorScheme)} /></Row>
        <Row name={texts.density}><SegmentedControl aria-label={texts.density} data={list(texts.densities)} value={density} onChange={(value) => change({ density: value as "compact" | "comfortable" })} /></Row>
        <Row name={texts.zone}><Select aria-label={texts.zone} data={zones} value={timeZone ?? OWN_ZONE} searchable limit={80} allowDeselect={false} maw={240} onChange={(value) => change({ timeZone: value === OWN_ZONE || value === null ? undefined : value })} /></Row>
        <Row name={texts.now}>{formatTime(now, timeZone)}</Row>
      </Stack>
    </Panel>
  );
}

function KeysPanel() {
  const rows = Object.entries(KEYS);
  return (
    <Panel title={texts.keys} isFlush>
      <Table verticalSpacing={3} horizontalSpacing={12}>
        <Table.Thead><Table.Tr><Table.Th>{texts.keyColumns.keys}</Table.Th><Table.Th>{texts.keyColumns.does}</Table.Th><Table.Th>{texts.keyColumns.group}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {rows.map(([name, it]) => <Table.Tr key={name}><Table.Td>{it.keys.split(/[ +]/).map((key) => <Kbd key={key} size="xs" mr={3}>{key === "mod" ? "Ctrl/⌘" : key}</Kbd>)}</Table.Td><Table.Td>{it.does}</Table.Td><Table.Td><Text span size="xs" c="dimmed">{it.group}</Text></Table.Td></Table.Tr>)}
        </Table.Tbody>
      </Table>
    </Panel>
  );
}

function AboutPanel() {
  const { data } = useQuery(systemInfoQuery);
  return (
    <Panel title={texts.about}>
      <Stack gap="xs">
        <Row name={texts.version}>{data?.version ?? ui.none}</Row>
        <Row name={texts.store}>{data?.store ?? ui.none}</Row>
        <Row name={texts.agents}>{data?.agents ?? ui.none}</Row>
        <Row name={texts.protocols}>{data?.protocols.join(", ") ?? ui.none}</Row>
        <Row name={texts.upFor}>{data === undefined ? ui.none : formatDuration(data.uptime_ms)}</Row>
        <Row name={texts.managed}>{data?.config_store_enabled === true ? texts.on : texts.off}</Row>
        <Group gap="md"><Anchor size="sm" href={`${root}/openapi.json`} target="_blank">{texts.openapi}</Anchor><Anchor size="sm" href={`${root}/metrics`} target="_blank">{texts.metrics}</Anchor></Group>
      </Stack>
    </Panel>
  );
}

export function SettingsPage() {
  return (
    <Page title={shell.pages.settings} description={texts.description}>
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
        <Stack gap="md"><CallerPanel /><TokenPanel /><LookPanel /><DemoData /><AboutPanel /></Stack>
        <KeysPanel />
      </SimpleGrid>
    </Page>
  );
}
