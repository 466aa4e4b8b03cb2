/** What starts runs without a caller: schedules and webhook triggers. */
import { SegmentedControl } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { schedules as texts } from "../../texts/schedules";
import { useChangeSearch } from "../../ui/address";
import { Page } from "../../ui/Page";
import { NeedsScope } from "../../ui/states";
import { ScheduleList } from "./ScheduleList";
import { TriggerList } from "./TriggerList";

const route = getRouteApi("/schedules");
const VIEWS = Object.entries(texts.views).map(([value, label]) => ({ value, label }));

export function SchedulesPage() {
  const { view } = route.useSearch();
  const change = useChangeSearch();
  const isTriggers = view === "triggers";
  const choose = (next: string) => change({ view: next === "schedules" ? undefined : next, open: undefined, edit: undefined, status: undefined, sort: undefined, columns: undefined });
  return (
    <NeedsScope scope="read" title={texts.title}>
      <Page title={texts.title} description={texts.description} actions={<SegmentedControl aria-label={texts.viewLabel} value={isTriggers ? "triggers" : "schedules"} onChange={choose} data={VIEWS} />}>
        {isTriggers ? <TriggerList /> : <ScheduleList />}
      </Page>
    </NeedsScope>
  );
}
