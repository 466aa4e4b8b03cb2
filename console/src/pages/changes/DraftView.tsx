/** One draft: what it changes, whether it compiles, what it would do, and the way to make it live. */
import { Alert, Button, Grid, Group, Stack, Text } from "@mantine/core";
import { IconArrowLeft, IconExternalLink } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import type { Head, Namespace } from "../../api/config";
import { checkDraft, compareDraft, discardDraft, dropRecord, loadDraft, previewDraft, rebaseDraft, type Draft, type DraftDifference, type Preference } from "../../api/drafts";
import { isGone } from "../../api/errors";
import { refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { useConfirm } from "../../ui/confirm";
import { RecordDiff } from "../../ui/FieldDiff";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Panel } from "../../ui/Panel";
import { Age, CopyableId, JsonDrawer } from "../../ui/parts";
import { Problems } from "../../ui/Problems";
import { Empty, Failure, Loading } from "../../ui/states";
import { groupConflicts, isRebaseNeeded, readConflictPaths, type Conflict } from "./conflicts";
import { DraftGates } from "./DraftGates";
import { ImpactPanel } from "./ImpactPanel";
import { PublishDialog } from "./PublishDialog";
import { RebaseDialog } from "./RebaseDialog";

function nameBase(no: number | null): string {
  return no === null ? texts.head.none : `publication ${no}`;
}

export function DraftView({ draftId, head }: { draftId: string; head: Head | undefined }) {
  const draft = useQuery({ queryKey: ["config", "draft", draftId], queryFn: ({ signal }) => loadDraft(draftId, signal) });
  const diff = useQuery({ queryKey: ["config", "diff", draftId], queryFn: ({ signal }) => compareDraft(draftId, signal) });
  const back = <Button variant="subtle" leftSection={<IconArrowLeft size={14} />} renderRoot={(props) => <Link to="/changes" {...props} />}>{texts.allDrafts}</Button>;
  const failed = [draft, diff].find((it) => it.isError);
  if (failed !== undefined && isGone(failed.error)) {
    return <Page title={texts.draftGone} actions={back}><Empty title={texts.draftGone}>{texts.draftGoneHelp}</Empty></Page>;
  }
  if (failed !== undefined) return <Page title={texts.columns.title} actions={back}><Failure error={failed.error} onRetry={() => void failed.refetch()} /></Page>;
  if (draft.data === undefined || diff.data === undefined || head === undefined) return <Page title={texts.columns.title} actions={back}><Loading /></Page>;
  return <LoadedDraft draft={draft.data} diff={diff.data} head={head} />;
}

type Loaded = { draft: Draft; diff: DraftDifference; head: Head };

/** What can be done with a draft besides publishing it. */
function useDraftActions({ draft, diff }: Loaded) {
  const confirm = useConfirm();
  const navigate = useNavigate();
  const [conflicts, setConflicts] = useState<readonly Conflict[]>([]);
  const rebase = async (fields: Record<string, Preference>) => {
    try {
      await rebaseDraft(draft, fields);
      setConflicts([]);
      noteDone(texts.rebased);
    } catch (error) {
      const paths = readConflictPaths(error);
      if (paths === null) noteError(error);
      else setConflicts(groupConflicts(paths, diff.records));
    }
    await refreshKinds("config");
  };
  const discard = async () => {
    if (!(await confirm({ title: texts.discardTitle, body: <Text size="sm">{texts.discardBody}</Text>, confirm: texts.discard, isDangerous: true }))) return;
    try {
      await discardDraft(draft);
      noteDone(texts.discarded);
      await navigate({ to: "/changes" });
      await refreshKinds("config");
    } catch (error) {
      noteError(error);
    }
  };
  const preview = async (agent: string | undefined) => {
    try {
      const publication = await previewDraft(draft.id);
      await navigate({ to: "/chat/{-$threadId}", search: { publication: String(publication), agent } });
    } catch (error) {
      noteError(error);
    }
  };
  const takeOut = async (ns: Namespace, id: string) => {
    try {
      await dropRecord(draft, ns, id);
      noteDone(texts.takenOut(`${ns}/${id}`));
      await refreshKinds("config");
    } catch (error) {
      noteError(error);
    }
  };
  return { conflicts, forgetConflicts: () => setConflicts([]), rebase, discard, preview, takeOut };
}

function CheckPanel({ draft }: { draft: Draft }) {
  const check = useQuery({ queryKey: ["config", "validate", draft.id, draft.revision], queryFn: ({ signal }) => checkDraft(draft.id, signal), refetchInterval: false });
  return (
    <Panel title={texts.problems} actions={<Button onClick={() => void check.refetch()} loading={check.isFetching}>{texts.check}</Button>}>
      {isRebaseNeeded(check.error) ? <Text size="sm">{texts.rebaseFirst}</Text> : check.isError ? <Failure error={check.error} /> : check.data === undefined ? <Loading rows={2} /> : (
        <Stack gap="xs">{check.data.ok ? <Text size="sm">{texts.compiles}</Text> : null}<Problems problems={check.data.problems} diagnostics={check.data.diagnostics} /></Stack>
      )}
    </Panel>
  );
}

function LoadedDraft(loaded: Loaded) {
  const { draft, diff, head } = loaded;
  const [reviewed, setReviewed] = useState<DraftDifference | null>(null);
  const [shown, setShown] = useState<Draft>();
  const navigate = useNavigate();
  const { conflicts, forgetConflicts, rebase, discard, preview, takeOut } = useDraftActions(loaded);
  const isBehind = draft.base !== head.publication;
  const isEmpty = draft.changes.length === 0;
  const agent = draft.changes.find((it) => it.ns === "agents" && it.type !== "delete")?.id;
  const title = draft.title || texts.untitled;
  const actions = (
    <>
      <Button variant="subtle" leftSection={<IconArrowLeft size={14} />} renderRoot={(props) => <Link to="/changes" {...props} />}>{texts.allDrafts}</Button>
      <Button variant="subtle" onClick={() => setShown(draft)}>{ui.asJson}</Button>
      <GatedButton scope="config" onClick={() => void discard()}>{texts.discard}</GatedButton>
      <GatedButton scope="config" reason={isEmpty ? texts.noRecords : undefined} rightSection={<IconExternalLink size={13} />} onClick={() => void preview(agent)}>{texts.preview}</GatedButton>
      <GatedButton scope="publish" variant="filled" reason={isEmpty ? texts.noRecords : undefined} onClick={() => setReviewed(diff)}>{texts.publish}</GatedButton>
    </>
  );
  return (
    <Page title={title} description={<Group gap="xs" component="span"><CopyableId id={draft.id} /><span>{draft.editors.join(", ")}</span><span>·</span><Age at={draft.updated_at} /></Group>} actions={actions}>
      <Stack gap="md">
        {isBehind && !isEmpty ? (
          <Alert color="yellow" title={texts.behind}>
            <Group justify="space-between"><Text size="sm">{texts.rebaseHelp(nameBase(draft.base), nameBase(head.publication))}</Text><GatedButton scope="config" variant="filled" onClick={() => void rebase({})}>{texts.rebase}</GatedButton></Group>
          </Alert>
        ) : null}
        {isEmpty ? <Empty title={texts.noRecords} action={<Button variant="filled" renderRoot={(props) => <Link to="/agents" {...props} />}>{texts.openAgents}</Button>}>{texts.noRecordsHelp}</Empty> : (
          <Grid gap="md">
            <Grid.Col span={{ base: 12, lg: 7 }}>
              <Panel title={texts.records} description={texts.recordsHelp(nameBase(diff.base), nameBase(diff.head))}>
                <Stack gap="sm">
                  {diff.records.map((it) => (
                    <RecordDiff key={`${it.ns}/${it.id}`} record={it} actions={<GatedButton scope="config" variant="subtle" onClick={() => void takeOut(it.ns as Namespace, it.id)}>{texts.takeOut}</GatedButton>} />
                  ))}
                </Stack>
              </Panel>
            </Grid.Col>
            <Grid.Col span={{ base: 12, lg: 5 }}><Stack gap="md"><CheckPanel draft={draft} /><DraftGates draft={draft} /><ImpactPanel draftId={draft.id} revision={draft.revision} /></Stack></Grid.Col>
          </Grid>
        )}
      </Stack>
      {reviewed === null ? null : <PublishDialog reviewed={reviewed} now={diff} head={head} onReview={setReviewed} onClose={() => setReviewed(null)} onDone={(no) => void navigate({ to: "/changes", search: { tab: "publications", publication: String(no) } })} />}
      <RebaseDialog key={conflicts.map((it) => it.path).join()} conflicts={conflicts} onClose={forgetConflicts} onResolve={(chosen) => void rebase(chosen)} />
      <JsonDrawer title={title} value={shown} onClose={() => setShown(undefined)} />
    </Page>
  );
}
