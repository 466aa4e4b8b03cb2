/** The waterfall and the requests of a conversation's run, beside it: the parts of the run's own page. */
import { Box, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useCallback, useState } from "react";

import { chat as texts } from "../../texts/chat";
import { lazyPart } from "../../ui/loadPart";
import { Failure, Loading } from "../../ui/states";
import { runQuery } from "../run/queries";
import type { RunSearch } from "../run/search";

const WaterfallTab = lazyPart(() => import("../run/WaterfallTab").then((it) => ({ default: it.WaterfallTab })));
const RequestsTab = lazyPart(() => import("../run/RequestsTab").then((it) => ({ default: it.RequestsTab })));

export function RunTab({ runId, view }: { runId: string | undefined; view: "waterfall" | "requests" }) {
  // What is chosen here is no place of its own: the run's page has the address.
  const [search, setSearch] = useState<RunSearch>({});
  const change = useCallback((part: RunSearch) => setSearch((now) => ({ ...now, ...part })), []);
  const { data, error, refetch } = useQuery({ ...runQuery(runId ?? ""), enabled: runId !== undefined });
  if (runId === undefined) return <Text size="sm" c="dimmed" p="sm">{texts.noRun}</Text>;
  if (data === undefined) return <Box p="sm">{error === null ? <Loading rows={4} /> : <Failure error={error} onRetry={() => void refetch()} />}</Box>;
  return (
    <Box p="sm">
      <Suspense fallback={<Loading rows={4} />}>
        {view === "waterfall" ? <WaterfallTab run={data} search={search} onSearch={change} /> : <RequestsTab run={data} search={search} onSearch={change} />}
      </Suspense>
    </Box>
  );
}
