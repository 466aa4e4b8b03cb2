/** Makes a draft live as it was read: for all, or as a canary for a share of new runs. */
import { Alert, Button, Checkbox, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useState } from "react";

import { nameCanary, type Head, type SeenCanary } from "../../api/config";
import { publishDraft, type DraftDifference } from "../../api/drafts";
import { refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { RecordDiff } from "../../ui/FieldDiff";
import { noteDone } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { DEFAULT_PLAN, writePlan } from "./canaryPlan";
import { PlanFields } from "./PlanFields";
import { findUnreviewed } from "./reviews";

type Props = {
  /** The comparison that the person has read: what it says is published, and nothing else. */
  reviewed: DraftDifference;
  /** The comparison as it is now. */
  now: DraftDifference;
  head: Head;
  onReview: (now: DraftDifference) => void;
  onClose: () => void;
  onDone: (publication: number) => void;
};

/** What others changed since the person read the draft. It is published only after they have read that too. */
function Unreviewed({ reviewed, now, onReview }: Pick<Props, "reviewed" | "now" | "onReview">) {
  const found = findUnreviewed(reviewed, now);
  if (found === null) return null;
  return (
    <Alert color="yellow" icon={<IconAlertTriangle size={18} />} title={texts.changedSinceReview} role="alert">
      <Stack gap="xs">
        <Text size="sm">{texts.changedSinceReviewHelp}</Text>
        {now.revision === reviewed.revision ? null : <Text size="sm">{texts.draftSinceReview(now.revision)}</Text>}
        {now.head === reviewed.head ? null : <Text size="sm">{texts.headSinceReview(now.head === null ? texts.head.none : `publication ${now.head}`)}</Text>}
        {found.left.map((it) => <Text key={it} size="sm">{texts.leftSinceReview(it)}</Text>)}
        {found.records.map((it) => <RecordDiff key={`${it.ns}/${it.id}`} record={it} label={texts.notRead(`${it.ns}/${it.id}`)} />)}
        <Group justify="flex-end"><Button onClick={() => onReview(now)}>{texts.readAgain}</Button></Group>
      </Stack>
    </Alert>
  );
}

export function PublishDialog({ reviewed, now, head, onReview, onClose, onDone }: Props) {
  const [message, setMessage] = useState("");
  const [isForAll, setIsForAll] = useState(head.workers.length > 1);
  const [isCanary, setIsCanary] = useState(false);
  const [ended, setEnded] = useState<SeenCanary | null>(null);
  const [plan, setPlan] = useState(DEFAULT_PLAN);
  const [refusal, setRefusal] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);
  const isRead = findUnreviewed(reviewed, now) === null;
  const running = head.canary === null ? null : nameCanary(head.canary);
  const endsRunning = running !== null && ended?.publication === running.publication && ended.since === running.since;
  const publish = async () => {
    setIsBusy(true);
    setRefusal(null);
    try {
      const publication = await publishDraft({ id: reviewed.draft, revision: reviewed.revision }, {
        message: message.trim(),
        require: isForAll ? "all" : "self",
        expected_head: reviewed.head ?? 0,
        canary: isCanary ? writePlan(plan) : null,
        over_canary: endsRunning ? running : null,
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
  const review = (next: DraftDifference) => {
    setRefusal(null);
    onReview(next);
  };
  return (
    <Modal opened onClose={onClose} title={texts.publishTitle} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      <form onSubmit={(event) => { event.preventDefault(); if (isRead) void publish(); }}>
        <Stack gap="sm">
          <Textarea label={texts.message} description={texts.messageHelp} value={message} maxLength={2_000} autosize minRows={2} data-autofocus onChange={(event) => setMessage(event.currentTarget.value)} />
          <Checkbox label={texts.requireAll} description={texts.requireAllHelp} checked={isForAll} onChange={(event) => setIsForAll(event.currentTarget.checked)} />
          {head.canary === null ? <Checkbox label={texts.asCanary} checked={isCanary} onChange={(event) => setIsCanary(event.currentTarget.checked)} />
            : <Checkbox label={texts.overCanary(head.canary.publication, head.canary.plan.percent)} description={texts.overCanaryHelp} checked={endsRunning} onChange={(event) => setEnded(event.currentTarget.checked ? running : null)} />}
          {isCanary ? <PlanFields plan={plan} onChange={setPlan} /> : null}
          {isRead ? <Refusal error={refusal} /> : <Unreviewed reviewed={reviewed} now={now} onReview={review} />}
          <Group justify="flex-end" gap="xs"><Button onClick={onClose}>{ui.cancel}</Button><Button type="submit" variant="filled" loading={isBusy} disabled={!isRead}>{isCanary ? texts.begin : texts.publishNow}</Button></Group>
        </Stack>
      </form>
    </Modal>
  );
}
