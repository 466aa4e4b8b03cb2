/** Drafts, publications, the canary and switches: everything that changes what runs use. */
import { Alert, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { headQuery, type Head } from "../../api/config";
import { draftsQuery } from "../../api/drafts";
import { changes as texts } from "../../texts/changes";
import { shell } from "../../texts/shell";
import { useChangeSearch } from "../../ui/address";
import { Page } from "../../ui/Page";
import { Figure, Figures } from "../../ui/Panel";
import { Failure, Loading } from "../../ui/states";
import { Tag } from "../../ui/Tag";
import { CanaryTab } from "./CanaryTab";
import { DraftsTab } from "./DraftsTab";
import { DraftView } from "./DraftView";
import { PublicationsTab } from "./PublicationsTab";
import { SwitchesTab } from "./SwitchesTab";
import { countByPublication } from "./workers";

const route = getRouteApi("/changes");
const TABS = ["drafts", "publications", "canary", "switches"] as const;

function HeadFigures({ head, drafts }: { head: Head; drafts: number }) {
  const groups = countByPublication(head.workers);
  const unusable = Object.entries(head.this_process.unusable);
  return (
    <Stack gap="xs" mb="md">
      <Figures>
        <Figure name={texts.head.live}>{head.publication ?? <Text span size="sm">{texts.head.none}</Text>}</Figure>
        <Figure name={texts.head.canary}>{head.canary === null ? <Text span size="sm">{texts.head.noCanary}</Text> : `${head.canary.publication} · ${head.canary.plan.percent} %`}</Figure>
        <Figure name={texts.head.switches}>{head.switches.length}</Figure>
        <Figure name={texts.head.drafts}>{drafts}</Figure>
        <Figure name={texts.head.workers}>{`${groups.find((it) => it.publication === head.publication)?.count ?? 0} / ${head.workers.length}`}</Figure>
      </Figures>
      {groups.length > 1 ? <Alert color="yellow" title={texts.head.split}>{groups.map((it) => texts.workersOn(it.count, it.publication)).join(" · ")}</Alert> : null}
      {unusable.map(([agent, problem]) => <Alert key={agent} color="red" title={texts.unusable(agent)}>{problem}</Alert>)}
    </Stack>
  );
}

export function ChangesPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const head = useQuery(headQuery);
  const drafts = useQuery(draftsQuery);
  if (search.draft !== undefined) return <DraftView draftId={search.draft} head={head.data} />;
  const tab = TABS.find((it) => it === search.tab) ?? "drafts";
  const failed = [head, drafts].find((it) => it.isError);
  return (
    <Page title={shell.pages.changes} description={texts.description}>
      {failed !== undefined ? <Failure error={failed.error} onRetry={() => void failed.refetch()} /> : head.data === undefined || drafts.data === undefined ? <Loading /> : (
        <>
          <HeadFigures head={head.data} drafts={drafts.data.length} />
          <Tabs value={tab} keepMounted={false} onChange={(value) => change({ tab: value ?? undefined, publication: undefined, from: undefined, to: undefined, sort: undefined, columns: undefined })}>
            <Tabs.List mb="md">
              <Tabs.Tab value="drafts">{texts.tabs.drafts}</Tabs.Tab>
              <Tabs.Tab value="publications">{texts.tabs.publications}</Tabs.Tab>
              <Tabs.Tab value="canary" rightSection={head.data.canary === null ? undefined : <Tag color="blue">{head.data.canary.plan.percent} %</Tag>}>{texts.tabs.canary}</Tabs.Tab>
              <Tabs.Tab value="switches" rightSection={head.data.switches.length === 0 ? undefined : <Tag color="red">{head.data.switches.length}</Tag>}>{texts.tabs.switches}</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="drafts"><DraftsTab drafts={drafts.data} head={head.data} /></Tabs.Panel>
            <Tabs.Panel value="publications"><PublicationsTab head={head.data} /></Tabs.Panel>
            <Tabs.Panel value="canary"><CanaryTab head={head.data} /></Tabs.Panel>
            <Tabs.Panel value="switches"><SwitchesTab switches={head.data.switches} /></Tabs.Panel>
          </Tabs>
        </>
      )}
    </Page>
  );
}
