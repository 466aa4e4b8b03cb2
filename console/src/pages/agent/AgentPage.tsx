/** The editor of an agent: every edit goes into a draft on the server; the preview beside it runs on that draft. */
import { Alert, Anchor, Badge, Box, Button, Group, List, Menu, Tabs, Text } from "@mantine/core";
import { IconAlertTriangle, IconBraces, IconCheck, IconCloudUpload, IconDots, IconMessagePlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useState } from "react";

import { useIsManaged, useMay } from "../../api/caller";
import { compareDraft, type Draft, type Preference } from "../../api/drafts";
import { ApiError } from "../../api/errors";
import { callerQuery } from "../../api/queries";
import { agent as texts } from "../../texts/agent";
import { records } from "../../texts/records";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { CopyIcon, JsonDrawer } from "../../ui/parts";
import { Problems } from "../../ui/Problems";
import type { JsonObject } from "../../ui/schema/model";
import { Empty, Failure, Loading } from "../../ui/states";
import { MergeDialog } from "../../ui/merge/MergeDialog";
import { groupConflicts, readConflictPaths, type Conflict } from "../changes/conflicts";
import { RebaseDialog } from "../changes/RebaseDialog";
import { Owner, PublishDialog } from "../records/parts";
import classes from "./AgentPage.module.css";
import { AgentView } from "./AgentView";
import { HistoryTab, UsageTab } from "./HistoryTab";
import { Overrides } from "./Overrides";
import { Preview } from "./Preview";
import { BasicsTab, BudgetsTab, DelegatesTab, JsonTab, PluginsTab, PromptTab, type TabProps } from "./tabs";
import { RulesTab, ToolsTab } from "./ToolsTab";
import { useAgentEditor, type AgentEditor } from "./useAgentEditor";

const route = getRouteApi("/agents/$agentId");
type TabName = keyof typeof texts.tabs;

export function AgentPage() {
  const { agentId } = route.useParams();
  const may = useMay();
  const isManaged = useIsManaged();
  const { isPending } = useQuery(callerQuery);
  if (isPending) return <Page title={agentId}><Loading /></Page>;
  return may("config") && isManaged ? <AgentEditorPage key={agentId} agentId={agentId} /> : <AgentView agentId={agentId} />;
}

function AgentEditorPage({ agentId }: { agentId: string }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const setDraft = useCallback((id: string | undefined) => change({ draft: id }), [change]);
  const editor = useAgentEditor(agentId, search.draft, setDraft);
  if (editor.error !== null) {
    const isUnknown = editor.error instanceof ApiError && editor.error.status === 404;
    return (
      <Page title={agentId}>
        {isUnknown ? <Empty title={texts.notFound} action={<Button renderRoot={(props) => <Link to="/agents" {...props} />}>{texts.allAgents}</Button>}>{texts.notFoundHelp}</Empty>
          : <Failure error={editor.error} onRetry={() => void editor.reload()} />}
      </Page>
    );
  }
  if (editor.mine === null) return <Page title={agentId}><Loading /></Page>;
  return <LoadedAgent agentId={agentId} editor={editor} mine={editor.mine} tab={search.tab} isPreviewOpen={search.preview !== "off"} onChange={change} />;
}

type LoadedProps = TabProps & { tab: string | undefined; isPreviewOpen: boolean; onChange: (change: Record<string, string | undefined>) => void };

function LoadedAgent({ agentId, editor, mine, tab, isPreviewOpen, onChange }: LoadedProps) {
  /** The draft that the question shows: exactly this version of it is published. */
  const [publishing, setPublishing] = useState<Draft | null>(null);
  const [json, setJson] = useState<JsonObject | undefined>(undefined);
  const chosen = tab !== undefined && Object.hasOwn(texts.tabs, tab) ? (tab as TabName) : "basics";
  const { clash, publish, settle, forget } = usePublish(editor, publishing);
  return (
    <Page
      title={<Group gap={6} component="span" display="inline-flex">{agentId}<CopyIcon value={agentId} label={`${ui.copy} ${agentId}`} /></Group>}
      name={agentId}
      description={<Description editor={editor} />}
      actions={<Actions agentId={agentId} editor={editor} onPublish={setPublishing} onJson={() => setJson(mine)} isPreviewOpen={isPreviewOpen} onPreview={() => onChange({ preview: isPreviewOpen ? "off" : undefined })} />}
    >
      {editor.problems.length === 0 ? null : <Box mb="sm"><Problems problems={editor.problems} /></Box>}
      {editor.state === "gone" ? <GoneDraft editor={editor} /> : null}
      <Overrides agentId={agentId} editor={editor} />
      <div className={classes.layout} data-preview={isPreviewOpen || undefined}>
        <div className={classes.panel}>
          <Tabs value={chosen} onChange={(next) => onChange({ tab: next === null || next === "basics" ? undefined : next })} keepMounted={false} activateTabWithKeyboard={false}>
            <Tabs.List className={classes.tabs} mb="md">
              {(Object.keys(texts.tabs) as TabName[]).map((name) => <Tabs.Tab key={name} value={name}>{texts.tabs[name]}</Tabs.Tab>)}
            </Tabs.List>
            <Tabs.Panel value={chosen}><TabContent name={chosen} agentId={agentId} editor={editor} mine={mine} /></Tabs.Panel>
          </Tabs>
        </div>
        {isPreviewOpen ? <Preview agentId={agentId} editor={editor} onClose={() => onChange({ preview: "off" })} /> : null}
      </div>
      {editor.conflict === null ? null : <MergeDialog title={texts.mergeTitle} versions={editor.conflict} onResolve={editor.resolve} />}
      <PublishDialog title={texts.publishTitle} isOpen={publishing !== null} onClose={() => setPublishing(null)} onPublish={publish}>
        <Text size="sm">{texts.publishCount(publishing?.title ?? "", publishing?.changes.length ?? 0)}</Text>
        {publishing === null || publishing.changes.length < 2 ? null : <List size="sm">{publishing.changes.map((it) => <List.Item key={`${it.ns}/${it.id}`} ff="monospace">{it.ns}/{it.id}</List.Item>)}</List>}
      </PublishDialog>
      {clash === null ? null : <RebaseDialog conflicts={clash.conflicts} onClose={forget} onResolve={(chosen) => void settle(chosen)} />}
      <JsonDrawer title={agentId} value={json} onClose={() => setJson(undefined)} />
    </Page>
  );
}

/** The draft was published or discarded by another person or page: what is typed waits for a decision. */
function GoneDraft({ editor }: { editor: AgentEditor }) {
  const [isBusy, setBusy] = useState(false);
  const act = (work: () => Promise<unknown>) => {
    setBusy(true);
    work().catch(noteError).finally(() => setBusy(false));
  };
  return (
    <Alert color="red" role="alert" mb="sm" title={texts.goneTitle(editor.draft?.title ?? "")}>
      <Text size="sm" mb="xs">{texts.goneHelp}</Text>
      <Group gap="xs">
        <Button variant="filled" loading={isBusy} onClick={() => act(editor.beginAgain)}>{texts.beginAgain}</Button>
        <Button loading={isBusy} onClick={() => act(editor.reload)}>{texts.showLive}</Button>
      </Group>
    </Alert>
  );
}

type Clash = { message: string; draft: Draft; conflicts: readonly Conflict[] };

/** Publishes with a message; where others published the same fields meanwhile, a person chooses, and the message stays. */
function usePublish(editor: AgentEditor, shown: Draft | null) {
  const [clash, setClash] = useState<Clash | null>(null);
  const publish = async (draft: Draft, message: string, chosen?: Readonly<Record<string, Preference>>) => {
    try {
      noteDone(records.published(await editor.publish(draft, message, chosen)));
      setClash(null);
    } catch (error) {
      const paths = readConflictPaths(error);
      if (paths === null) throw error;
      setClash({ message, draft, conflicts: groupConflicts(paths, (await compareDraft(draft.id)).records) });
    }
  };
  const settle = async (chosen: Readonly<Record<string, Preference>>) => { if (clash !== null) await publish(clash.draft, clash.message, chosen).catch(noteError); };
  return { clash, publish: async (message: string) => { if (shown !== null) await publish(shown, message); }, settle, forget: () => setClash(null) };
}

function TabContent({ name, ...props }: TabProps & { name: TabName }) {
  switch (name) {
    case "basics": return <BasicsTab {...props} />;
    case "prompt": return <PromptTab {...props} />;
    case "tools": return <ToolsTab {...props} />;
    case "rules": return <RulesTab {...props} />;
    case "plugins": return <PluginsTab {...props} />;
    case "delegates": return <DelegatesTab {...props} />;
    case "budgets": return <BudgetsTab {...props} />;
    case "json": return <JsonTab {...props} />;
    case "history": return <HistoryTab agentId={props.agentId} onRestored={() => void props.editor.reload()} />;
    case "usage": return <UsageTab agentId={props.agentId} />;
  }
}

function Description({ editor }: { editor: AgentEditor }) {
  const { meta, draft, state, isChanged } = editor;
  const title = draft === null || (state === "clean" && !isChanged) ? null : draft.title;
  const isBad = state === "refused" || state === "conflict" || state === "gone" || state === "failed";
  return (
    <Group gap="sm" component="span" display="inline-flex">
      {meta === undefined ? <Text span size="sm">{texts.isNew}</Text> : <Owner owner={meta.owner} hasDrift={meta.drift} />}
      {meta?.hidden === true ? <Badge variant="outline" color="gray" c="inherit">{texts.hidden}</Badge> : null}
      <Group gap={4} component="span" display="inline-flex" role="status">
        {isBad ? <IconAlertTriangle size={14} aria-hidden /> : state === "saved" ? <IconCheck size={14} aria-hidden /> : null}
        <Text span size="sm" c={isBad ? "var(--mantine-color-error)" : undefined}>{texts.states[state](title)}</Text>
      </Group>
      {state === "failed" ? <Anchor component="button" type="button" size="sm" onClick={() => void editor.flush()}>{texts.retry}</Anchor> : null}
    </Group>
  );
}

type ActionsProps = { agentId: string; editor: AgentEditor; onPublish: (draft: Draft) => void; onJson: () => void; isPreviewOpen: boolean; onPreview: () => void };

function Actions({ agentId, editor, onPublish, onJson, isPreviewOpen, onPreview }: ActionsProps) {
  const confirm = useConfirm();
  const navigate = useNavigate();
  const discard = async () => {
    if (!(await confirm({ title: texts.discardTitle, body: texts.discardBody, confirm: texts.discard, isDangerous: true }))) return;
    try {
      await editor.discard();
      noteDone(texts.discarded);
      if (editor.live === null) void navigate({ to: "/agents" });
    } catch (error) {
      noteError(error);
    }
  };
  const isEdited = editor.isChanged || editor.state === "dirty" || editor.state === "saving";
  return (
    <>
      {isPreviewOpen ? null : <Button leftSection={<IconMessagePlus size={14} />} onClick={onPreview}>{texts.preview.show}</Button>}
      {editor.draft === null || !isEdited ? null : <Button renderRoot={(props) => <Link to="/changes" search={{ draft: editor.draft?.id }} {...props} />}>{texts.openChanges}</Button>}
      <GatedButton scope="publish" variant="filled" leftSection={<IconCloudUpload size={14} />} reason={isEdited ? undefined : texts.nothing} onClick={() => { void editor.flush().then((draft) => { if (draft !== null) onPublish(draft); }); }}>{texts.publish}</GatedButton>
      <Menu position="bottom-end">
        <Menu.Target><Button px={8} aria-label={shell.openMenu}><IconDots size={14} /></Button></Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconBraces size={14} />} onClick={onJson}>{ui.asJson}</Menu.Item>
          <Menu.Item onClick={() => void navigate({ to: "/chat/{-$threadId}", search: { agent: agentId } })}>{texts.chat}</Menu.Item>
          {isEdited ? <Menu.Item color="red" onClick={() => void discard()}>{texts.discard}</Menu.Item> : null}
        </Menu.Dropdown>
      </Menu>
    </>
  );
}
