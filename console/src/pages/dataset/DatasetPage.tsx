/** One dataset: its cases, those that wait for confirmation, its revisions, its scorers and its gate. */
import { Alert, Badge, Button, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";

import { datasetQuery, deleteDataset, type Dataset } from "../../api/evals";
import { isGone } from "../../api/errors";
import { datasets as texts } from "../../texts/datasets";
import { demo } from "../../texts/demo";
import { shell } from "../../texts/shell";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { CaseDrawer, NEW } from "./CaseDrawer";
import { isWaiting } from "./cases";
import { CasesTab } from "./CasesTab";
import { RevisionsTab } from "./RevisionsTab";
import { SettingsTab } from "./SettingsTab";

const route = getRouteApi("/datasets/$datasetId");
const TABS = ["cases", "waiting", "revisions", "settings"] as const;

export function DatasetPage() {
  const { datasetId } = route.useParams();
  return <NeedsScope scope="config" isOfConfig={false} title={datasetId}><Loaded datasetId={datasetId} /></NeedsScope>;
}

function Loaded({ datasetId }: { datasetId: string }) {
  const { data, error, refetch } = useQuery(datasetQuery(datasetId));
  const all = <Button variant="subtle" renderRoot={(props) => <Link to="/datasets" {...props} />}>{texts.one.all}</Button>;
  if (isGone(error)) return <Page title={shell.pages.datasets} actions={all}><Empty title={texts.one.notFound} /></Page>;
  if (data === undefined) return <Page title={datasetId} actions={all}>{error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />}</Page>;
  return <DatasetView dataset={data} />;
}

function DatasetView({ dataset }: { dataset: Dataset }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const confirm = useConfirm();
  const tab = TABS.find((it) => it === search.tab) ?? "cases";
  const waiting = dataset.cases.filter(isWaiting).length;
  const remove = async () => {
    if (!(await confirm({ title: texts.one.removeTitle(dataset.id), body: texts.one.removeBody, confirm: texts.one.remove, isDangerous: true }))) return;
    try {
      await deleteDataset(dataset.id, dataset.revision);
      noteDone(texts.one.removed);
      await navigate({ to: "/datasets" });
    } catch (error) {
      noteError(error);
    }
  };
  const fixed = dataset.isDemo ? demo.only : undefined;
  const actions = (
    <>
      <Button variant="subtle" renderRoot={(props) => <Link to="/datasets" {...props} />}>{texts.one.all}</Button>
      <GatedButton scope="eval" reason={fixed} onClick={() => void remove()}>{texts.one.remove}</GatedButton>
      <GatedButton scope="eval" reason={fixed} onClick={() => change({ case: NEW })}>{texts.one.addCase}</GatedButton>
      <GatedButton scope="eval" variant="filled" reason={fixed ?? (dataset.cases.length === 0 ? texts.one.noCases : undefined)} onClick={() => void navigate({ to: "/evals", search: { new: NEW, dataset: dataset.id } })}>{texts.one.start}</GatedButton>
    </>
  );
  return (
    <Page title={dataset.id} description={dataset.description === "" ? undefined : <ShownText text={dataset.description} />} actions={actions}>
      {dataset.erased.length === 0 ? null : <Alert color="gray" mb="sm">{texts.one.erased(dataset.erased.join(", "))}</Alert>}
      <Tabs value={tab} keepMounted={false} onChange={(value) => change({ tab: value === "cases" || value === null ? undefined : value, sort: undefined, columns: undefined, q: undefined, tag: undefined })}>
        <Tabs.List mb="sm" aria-label={texts.one.tabsLabel}>
          {TABS.map((it) => <Tabs.Tab key={it} value={it} rightSection={it === "waiting" && waiting > 0 ? <Badge size="xs" color="yellow" variant="filled">{waiting}</Badge> : undefined}>{texts.one.tabs[it]}</Tabs.Tab>)}
        </Tabs.List>
        <Tabs.Panel value="cases"><CasesTab key="cases" dataset={dataset} /></Tabs.Panel>
        <Tabs.Panel value="waiting"><CasesTab key="waiting" dataset={dataset} isQueue /></Tabs.Panel>
        <Tabs.Panel value="revisions"><RevisionsTab dataset={dataset} /></Tabs.Panel>
        <Tabs.Panel value="settings"><SettingsTab key={dataset.revision} dataset={dataset} /></Tabs.Panel>
      </Tabs>
      <CaseDrawer dataset={dataset} id={search.case} onClose={() => change({ case: undefined })} onMade={(id) => change({ case: id })} />
    </Page>
  );
}
