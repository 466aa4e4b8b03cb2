/** Makes a draft live: for all, or as a canary for a share of new runs. */
import { Alert, Button, Checkbox, Group, List, Modal, Stack, Textarea } from "@mantine/core";
import { useState } from "react";

import { ask } from "../../api/ask";
import { ApiError, describeError } from "../../api/errors";
import type { Draft, Head } from "../../api/managed";
import { refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { noteDone } from "../../ui/notices";
import { Problems } from "../../ui/Problems";
import { DEFAULT_PLAN, writePlan } from "./canaryPlan";
import { PlanFields } from "./PlanFields";

type Props = { draft: Draft; head: Head; isOpen: boolean; onClose: () => void; onDone: (publication: number) => void };

function listTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.map((it) => (typeof it === "string" ? it : JSON.stringify(it))) : [];
}

/** Why the server refused to publish, with what must be done about it. */
function Refusal({ error }: { error: unknown }) {
  if (!(error instanceof ApiError)) return <Alert color="red">{describeError(error)}</Alert>;
  const reasons = [...listTexts(error.body.unmet), ...listTexts(error.body.refused_by)];
  return (
    <>
      <Alert color="red" title={error.message} role="alert">{reasons.length === 0 ? error.code : <List size="sm">{reasons.map((it) => <List.Item key={it}>{it}</List.Item>)}</List>}</Alert>
      <Problems problems={error.problems} />
    </>
  );
}

export function PublishDialog({ draft, head, isOpen, onClose, onDone }: Props) {
  const [message, setMessage] = useState("");
  const [isForAll, setIsForAll] = useState(head.workers.length > 1);
  const [isCanary, setIsCanary] = useState(false);
  const [isOver, setIsOver] = useState(false);
  const [plan, setPlan] = useState(DEFAULT_PLAN);
  const [refusal, setRefusal] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);
  const publish = async () => {
    setIsBusy(true);
    setRefusal(null);
    try {
      const body = {
        message: message.trim(),
        require: isForAll ? "all" : "self",
        ...(head.publication === null ? {} : { expected_head: head.publication }),
        ...(isCanary ? { canary: writePlan(plan) } : {}),
        ...(isOver ? { over_canary: true } : {}),
      };
      const done = await ask<{ publication: number }>("POST", `/v1/config/drafts/${draft.id}/publish`, { body, headers: { "If-Match": `"${draft.revision}"` } });
      noteDone(isCanary ? texts.canaryBegun(done.publication, plan.percent) : texts.published(done.publication));
      onDone(done.publication);
      await refreshKinds("config", "agent", "audit", "model");
    } catch (error) {
      setRefusal(error);
      await refreshKinds("config");
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <Modal opened={isOpen} onClose={onClose} title={texts.publishTitle} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); void publish(); }}>
        <Stack gap="sm">
          <Textarea label={texts.message} description={texts.messageHelp} value={message} maxLength={2_000} autosize minRows={2} data-autofocus onChange={(event) => setMessage(event.currentTarget.value)} />
          <Checkbox label={texts.requireAll} description={texts.requireAllHelp} checked={isForAll} onChange={(event) => setIsForAll(event.currentTarget.checked)} />
          {head.canary === null ? <Checkbox label={texts.asCanary} checked={isCanary} onChange={(event) => setIsCanary(event.currentTarget.checked)} />
            : <Checkbox label={texts.overCanary} checked={isOver} onChange={(event) => setIsOver(event.currentTarget.checked)} />}
          {isCanary ? <PlanFields plan={plan} onChange={setPlan} /> : null}
          {refusal === null ? null : <Refusal error={refusal} />}
          <Group justify="flex-end" gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled" loading={isBusy}>{isCanary ? texts.begin : texts.publishNow}</Button></Group>
        </Stack>
      </form>
    </Modal>
  );
}
