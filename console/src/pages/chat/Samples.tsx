/** An empty conversation: what can be said, and on the demo what shows each part of the console. */
import { Button, Group, Text } from "@mantine/core";

import { chat as texts } from "../../texts/chat";
import { Empty } from "../../ui/states";

type Sample = (typeof texts.samples)[number];

export function Samples({ agents, onPick }: { agents: readonly string[]; onPick: (sample: Sample) => void }) {
  const isDemo = texts.samples.every((it) => agents.includes(it.agent));
  return (
    <Empty title={texts.emptyTitle}>
      <Text size="sm" c="dimmed">{texts.emptyHelp}</Text>
      {isDemo ? (
        <>
          <Text size="sm" c="dimmed" mt="md" mb="xs">{texts.demoHelp}</Text>
          <Group gap="xs" justify="center">{texts.samples.map((it) => <Button key={it.label} onClick={() => onPick(it)}>{it.label}</Button>)}</Group>
        </>
      ) : null}
    </Empty>
  );
}
