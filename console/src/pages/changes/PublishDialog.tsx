/** Makes a draft live: for all, or as a canary for a share of new runs. */
import { Button, Checkbox, Group, Modal, Stack, Textarea } from "@mantine/core";
import { useState } from "react";

import type { Head } from "../../api/config";
import { publishDraft, type Draft } from "../../api/drafts";
import { refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { noteDone } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { DEFAULT_PLAN, writePlan } from "./canaryPlan";
import { PlanFields } from "./PlanFields";

type Props = { draft: Draft; head: Head; isOpen: boolean; onClose: () => void; onDone: (publication: number) => void };

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
      const publication = await publishDraft(draft, {
        message: message.trim(),
        require: isForAll ? "all" : "self",
        expected_head: head.publication,
        canary: isCanary ? writePlan(plan) : null,
        over_canary: isOver,
      });
      noteDone(isCanary ? texts.canaryBegun(publication, plan.percent) : texts.published(publication));
      onDone(publication);
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
          <Refusal error={refusal} />
          <Group justify="flex-end" gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled" loading={isBusy}>{isCanary ? texts.begin : texts.publishNow}</Button></Group>
        </Stack>
      </form>
    </Modal>
  );
}
