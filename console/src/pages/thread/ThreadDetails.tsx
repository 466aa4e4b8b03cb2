/** The fields of a thread that people may change, and the thread as JSON. */
import { Button, Group, Stack, Textarea, TextInput, Title, Tooltip } from "@mantine/core";
import { useState, type FormEvent } from "react";

import { api, need, type Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { queryClient, refreshKinds } from "../../api/queries";
import { threads as texts } from "../../texts/threads";
import { ui } from "../../texts/ui";
import { noteDone, noteError } from "../../ui/notices";
import { JsonText } from "../../ui/parts";
import { buildEdit, readFieldsOf } from "./edits";
import { threadQuery } from "./queries";

export function ThreadDetails({ thread }: { thread: Schemas["NativeThreadView"] }) {
  const may = useMay();
  const before = readFieldsOf(thread);
  const [typed, setTyped] = useState(before);
  const [isBusy, setIsBusy] = useState(false);
  const edit = buildEdit(before, typed);
  const isChanged = edit === null || Object.keys(edit).length > 0;

  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (edit === null || !isChanged) return;
    setIsBusy(true);
    try {
      const changed = await need(api.PATCH("/v1/threads/{thread_id}", { params: { path: { thread_id: thread.id } }, body: edit as Schemas["ThreadEdit"] }));
      queryClient.setQueryData(threadQuery(thread.id).queryKey, changed);
      setTyped(readFieldsOf(changed));
      noteDone(texts.edit.saved);
      await refreshKinds("thread");
    } catch (error) {
      noteError(error);
    } finally {
      setIsBusy(false);
    }
  };

  return (
    <Stack gap="lg" maw={640}>
      <form onSubmit={(event) => void save(event)}>
        <Stack gap="sm">
          <TextInput label={texts.edit.title} value={typed.title} onChange={(event) => setTyped({ ...typed, title: event.currentTarget.value })} />
          <TextInput label={texts.edit.owner} value={typed.owner} onChange={(event) => setTyped({ ...typed, owner: event.currentTarget.value })} />
          <Textarea
            label={texts.edit.custom} description={texts.edit.customHelp} value={typed.custom} autosize minRows={3} maxRows={20} spellCheck={false}
            error={edit === null ? texts.edit.notObject : undefined} styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
            onChange={(event) => setTyped({ ...typed, custom: event.currentTarget.value })}
          />
          <Group gap="xs">
            <Tooltip label={texts.needsInvoke} disabled={may("invoke")}>
              <Button type="submit" variant="filled" loading={isBusy} disabled={!may("invoke") || edit === null || !isChanged}>{texts.edit.save}</Button>
            </Tooltip>
            {isChanged ? <Button variant="subtle" onClick={() => setTyped(before)}>{texts.edit.reset}</Button> : null}
          </Group>
        </Stack>
      </form>
      <div>
        <Title order={2} mb="xs">{ui.asJson}</Title>
        <JsonText value={thread} />
      </div>
    </Stack>
  );
}
