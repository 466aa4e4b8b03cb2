/** What a page shows when it has nothing to show: it loads, it is empty, it was refused, it failed. */
import { Alert, Box, Button, Code, Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconLock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { useIsManaged, useMay, type Scope } from "../api/caller";
import { ApiError, describeError, isConfigOff } from "../api/errors";
import { callerQuery, queryClient } from "../api/queries";
import { askForToken } from "../api/token";
import { shell } from "../texts/shell";

export function Loading({ rows = 6 }: { rows?: number }) {
  return (
    <Stack gap={6} aria-busy="true" role="status" aria-label={shell.loading}>
      {Array.from({ length: rows }, (_, index) => <Skeleton key={index} height={28} radius="sm" />)}
    </Stack>
  );
}

type EmptyProps = { title: string; children?: ReactNode; action?: ReactNode; command?: string };

/** One sentence about what belongs here, the one action, and the command line that does the same. */
export function Empty({ title, children, action, command }: EmptyProps) {
  return (
    <Box py={48} px="md" ta="center" maw={640} mx="auto">
      <Title order={2} mb={4}>{title}</Title>
      {children === undefined ? null : <Text c="dimmed" size="sm" component="div" maw={480} mx="auto">{children}</Text>}
      {action === undefined ? null : <Group justify="center" mt="md">{action}</Group>}
      {command === undefined ? null : <Code block mt="md" mx="auto" w="fit-content" maw="100%" ta="left" bd="1px solid var(--aw-line)" style={{ whiteSpace: "pre-wrap", overflowWrap: "break-word" }}><Command text={command} /></Code>}
    </Box>
  );
}

/** A line of a shell that is broken at its spaces only: an option that is torn apart reads as two. */
function Command({ text }: { text: string }) {
  return text.split(/( )/).map((part, index) => (part === " " ? part : <span key={index} style={{ display: "inline-block", maxWidth: "100%", overflowWrap: "break-word" }}>{part}</span>));
}

export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const refusal = error instanceof ApiError ? error : null;
  if (refusal?.status === 403) return <Refused text={refusal.message} />;
  if (isConfigOff(error)) return <ConfigOff />;
  return (
    <Alert color="red" variant="light" icon={<IconAlertTriangle size={18} />} title={describeError(error)} role="alert">
      <Group justify="space-between" gap="sm">
        <Text size="xs" c="dimmed">
          {refusal === null ? null : <>{refusal.code}{refusal.requestId === null ? null : <> · {shell.requestId(refusal.requestId)}</>}</>}
        </Text>
        {onRetry === undefined ? null : <Button onClick={onRetry}>{shell.tryAgain}</Button>}
      </Group>
    </Alert>
  );
}

function Refused({ text }: { text: string }) {
  return (
    <Alert color="yellow" variant="light" icon={<IconLock size={18} />} title={text}>
      <Group justify="space-between" gap="sm">
        <Text size="sm">{shell.needsScopeHelp}</Text>
        <Button onClick={() => void changeToken()}>{shell.otherToken}</Button>
      </Group>
    </Alert>
  );
}

/** Asks for another token; all that was fetched belongs to the caller before. */
async function changeToken(): Promise<void> {
  if ((await askForToken()) !== null) await queryClient.resetQueries();
}

/** Says that this server has no managed configuration, and how it gets one. */
function ConfigOff() {
  return (
    <Empty title={shell.configOff} command={shell.configOffCommand}>{shell.configOffHelp}</Empty>
  );
}

/** `isOfConfig`: the page is of no use without managed configuration if it needs the scope `config`. */
type NeedsProps = { title?: string; isOfConfig?: boolean; children: ReactNode };

/** Shows its content to callers with all of some scopes; the others are told which one they need. `title`: the heading that the page would have had. */
export function NeedsScopes({ scopes, title, isOfConfig = true, children }: NeedsProps & { scopes: readonly Scope[] }) {
  const may = useMay();
  const isManaged = useIsManaged();
  const { isPending } = useQuery(callerQuery);
  const missing = scopes.find((it) => !may(it));
  const isOff = !isManaged && isOfConfig && scopes.includes("config");
  if (missing === undefined && !isOff) return <>{children}</>;
  return (
    <Box p="lg">
      {title === undefined ? null : <Title order={1} mb="md">{title}</Title>}
      {isPending ? <Loading /> : missing === undefined ? <ConfigOff /> : <Refused text={shell.needsScope(missing)} />}
    </Box>
  );
}

export function NeedsScope({ scope, ...rest }: NeedsProps & { scope: Scope }) {
  return <NeedsScopes scopes={[scope]} {...rest} />;
}
