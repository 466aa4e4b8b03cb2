/** One tool: its schema, who has it, its description for the model, and its switch. */
import { Alert, Badge, Button, Drawer, Group, Stack, Text, Textarea, TextInput, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { dropOverride, publishRecord, releaseSwitch, setSwitch } from "../../api/config";
import { refreshKinds } from "../../api/queries";
import { records } from "../../texts/records";
import { tools as texts } from "../../texts/tools";
import { ui } from "../../texts/ui";
import { FormModal } from "../../ui/FormDialogs";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { CopyableId, JsonText } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { PublishDialog } from "../records/parts";
import type { ToolRow } from "./rows";

export function ToolDrawer({ tool, onClose }: { tool: ToolRow | undefined; onClose: () => void }) {
  return (
    <Drawer opened={tool !== undefined} onClose={onClose} title={tool?.id} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      {tool === undefined ? null : <ToolDetails key={tool.id} tool={tool} />}
    </Drawer>
  );
}

function ToolDetails({ tool }: { tool: ToolRow }) {
  const [isSwitching, setSwitching] = useState(false);
  const release = async () => {
    try {
      if (tool.isOff !== undefined) await releaseSwitch(tool.isOff);
      noteDone(texts.switchedOn(tool.id));
      await refreshKinds("switch", "config", "audit");
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <Group gap="xs"><CopyableId id={tool.id} chars={40} />{tool.isOff === undefined ? null : <Badge variant="outline" color="red" c="inherit" title={tool.isOff.reason}>{texts.off}</Badge>}</Group>
        {tool.isOff === undefined ? <GatedButton scope="operate" color="red" variant="outline" onClick={() => setSwitching(true)}>{texts.switchOff}</GatedButton> : <GatedButton scope="operate" onClick={() => void release()}>{texts.switchOn}</GatedButton>}
      </Group>
      <Group gap="lg">
        <Text size="sm">{texts.columns.source}: {texts.sources[tool.source.kind] ?? tool.source.kind}{tool.source.id == null ? "" : ` ${tool.source.id}`}</Text>
        <Text size="sm">{texts.columns.effect}: {texts.effects[tool.effect] ?? ui.none}</Text>
      </Group>
      <DescriptionEditor tool={tool} />
      <div>
        <Title order={3} mb={4}>{texts.whoHas}</Title>
        {tool.agents.length === 0 ? <Text size="sm" c="dimmed">{texts.nobody}</Text> : <Group gap="xs">{tool.agents.map((it) => <Link key={it} to="/agents/$agentId" params={{ agentId: it }} search={{ tab: "tools" }}>{it}</Link>)}</Group>}
      </div>
      <div><Title order={3} mb={4}>{texts.schema}</Title><JsonText value={tool.schema} /></div>
      <SwitchDialog id={tool.id} isOpen={isSwitching} onClose={() => setSwitching(false)} />
    </Stack>
  );
}

function DescriptionEditor({ tool }: { tool: ToolRow }) {
  const [text, setText] = useState(tool.description);
  const [isPublishing, setPublishing] = useState(false);
  // What another person publishes meanwhile replaces no text that is being typed: it is shown beside it.
  const [seen, setSeen] = useState<Pick<ToolRow, "description" | "revision">>(tool);
  const isTyped = text !== seen.description && text !== tool.description;
  const isOutdated = isTyped && tool.description !== seen.description;
  useEffect(() => {
    if (isTyped) return;
    setText(tool.description);
    setSeen(tool);
  }, [tool, isTyped]);
  if (!tool.hasRecord) return <div><Text size="sm">{tool.description}</Text><Text size="xs" c="dimmed">{texts.notOverridable}</Text></div>;
  const publish = async (message: string) => {
    await publishRecord("tools", tool.id, { overrides: { description: text } }, message, seen.revision);
    noteDone(records.published(null));
    await refreshKinds("config", "agent", "audit");
    // What was typed is published: what the server has of it is shown from here on.
    setSeen({ description: text, revision: seen.revision });
  };
  const reset = async () => {
    try {
      await dropOverride("tools", tool.id, "description", tool.revision);
      noteDone(records.published(null));
      await refreshKinds("config", "agent", "audit");
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <div>
      <Textarea label={<Group gap="xs" component="span" display="inline-flex">{texts.override}{tool.isOverridden ? <Badge variant="outline" color="gray" c="inherit">{texts.overridden}</Badge> : null}</Group>} description={texts.overrideHelp} autosize minRows={3} maxRows={12} value={text} onChange={(event) => setText(event.currentTarget.value)} />
      {isOutdated ? (
        <Alert color="yellow" mt="xs" role="status" title={texts.theirs}>
          <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}><ShownText text={tool.description} /></Text>
          <Group gap="xs" mt="xs"><Button onClick={() => setSeen(tool)}>{texts.keepMine}</Button><Button onClick={() => { setText(tool.description); setSeen(tool); }}>{texts.takeTheirs}</Button></Group>
        </Alert>
      ) : null}
      <Group gap="xs" mt="xs">
        <GatedButton scope="publish" variant="filled" reason={isOutdated ? texts.theirs : text === tool.description ? "Nothing is changed." : undefined} onClick={() => setPublishing(true)}>{records.publish}</GatedButton>
        {tool.isOverridden ? <GatedButton scope="publish" onClick={() => void reset()}>{texts.backToCode}</GatedButton> : null}
      </Group>
      <PublishDialog title={records.publishTitle(tool.id)} isOpen={isPublishing} onClose={() => setPublishing(false)} onPublish={publish} />
    </div>
  );
}

function SwitchDialog({ id, isOpen, onClose }: { id: string; isOpen: boolean; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const switchOff = async () => {
    try {
      await setSwitch("tool", id, reason, undefined);
      noteDone(texts.switchedOff(id));
      onClose();
      await refreshKinds("switch", "config", "audit");
    } catch (error) {
      noteError(error);
    }
  };
  return (
    <FormModal opened={isOpen} onClose={onClose} title={texts.switchTitle(id)} closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); void switchOff(); }}>
        <Stack gap="sm">
          <Text size="sm">{texts.switchHelp}</Text>
          <TextInput data-autofocus label={texts.reason} required withAsterisk value={reason} onChange={(event) => setReason(event.currentTarget.value)} />
          <Group justify="flex-end" gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled" color="red" disabled={reason.trim() === ""}>{texts.switchOff.replace("…", "")}</Button></Group>
        </Stack>
      </form>
    </FormModal>
  );
}
