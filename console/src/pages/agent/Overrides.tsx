/** The fields of an agent of the code that are overridden; each can be taken back by itself. */
import { Group, Text } from "@mantine/core";
import { IconArrowBackUp } from "@tabler/icons-react";

import { dropOverride } from "../../api/config";
import { refreshKinds } from "../../api/queries";
import { agent } from "../../texts/agent";
import { useConfirm } from "../../ui/confirm";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import type { AgentEditor } from "./useAgentEditor";

const texts = agent.overrides;

export function Overrides({ agentId, editor }: { agentId: string; editor: AgentEditor }) {
  const confirm = useConfirm();
  const fields = Object.keys(editor.meta?.user_overrides ?? {});
  if (fields.length === 0) return null;
  const takeBack = async (field: string) => {
    if (!(await confirm({ title: texts.confirmTitle(field), body: <Text size="sm">{texts.confirmBody}</Text>, confirm: texts.confirm }))) return;
    try {
      await editor.flush();
      await dropOverride("agents", agentId, field, editor.meta?.revision);
      noteDone(texts.done(field));
      await refreshKinds("config", "agent", "audit");
      await editor.reload();
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <Group gap="xs" mb="sm" role="group" aria-label={texts.title}>
      <Text size="sm" fw={500} title={texts.help}>{texts.title}:</Text>
      {fields.map((it) => <GatedButton key={it} scope="publish" title={texts.takeBack(it)} rightSection={<IconArrowBackUp size={13} />} onClick={() => void takeBack(it)}>{it}</GatedButton>)}
    </Group>
  );
}
