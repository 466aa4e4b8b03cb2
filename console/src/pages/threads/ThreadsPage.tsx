/** The list of threads. */
import { Button, Group, Text, TextInput, Tooltip } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";

import { api, need, type Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { usePagedList, type ListedPage } from "../../api/paging";
import { refreshKinds } from "../../api/queries";
import { shell } from "../../texts/shell";
import { threads as texts } from "../../texts/threads";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DANGER_TEXT } from "../../ui/danger";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { ShowDemo } from "../../ui/DemoData";
import { Filters, WITH_DEMO } from "../../ui/Filters";
import { formatCount } from "../../ui/format";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Age, CopyableId, ShortId } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";

type Summary = Schemas["ThreadSummary"];
type SearchedPage = ListedPage<Summary> & { looked_at?: number; is_complete?: boolean };

const COLUMNS: readonly DataColumn<Summary>[] = [
  { id: "title", header: texts.columns.title, cell: (it) => <Link to="/threads/$threadId" params={{ threadId: it.id }}>{it.title === null || it.title === "" ? <ShortId id={it.id} /> : <ShownText text={it.title} />}</Link>, sortValue: (it) => it.title },
  { id: "agent", header: texts.columns.agent, cell: (it) => it.agent_id ?? ui.none, sortValue: (it) => it.agent_id },
  { id: "owner", header: texts.columns.owner, cell: (it) => (it.resource_id === null ? ui.none : <ShownText text={it.resource_id} />), sortValue: (it) => it.resource_id },
  { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} />, sortValue: (it) => it.updated_at },
  { id: "parent", header: texts.columns.parent, cell: (it) => (it.parent_thread_id === null ? ui.none : <Link to="/threads/$threadId" params={{ threadId: it.parent_thread_id }}><ShortId id={it.parent_thread_id} /></Link>), sortValue: (it) => it.parent_thread_id },
  { id: "id", header: texts.columns.id, cell: (it) => <CopyableId id={it.id} />, sortValue: (it) => it.id },
];
const route = getRouteApi("/threads");

/** Opens any thread by its id: a search looks only at the threads that changed last. */
function OpenById() {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const open = (event: FormEvent) => {
    event.preventDefault();
    if (typed.trim() !== "") void navigate({ to: "/threads/$threadId", params: { threadId: typed.trim() } });
  };
  return (
    <form onSubmit={open}>
      <TextInput aria-label={texts.open} placeholder={texts.openHelp} value={typed} w={220} onChange={(event) => setTyped(event.currentTarget.value)} />
    </form>
  );
}

function useDeleteThreads(): (chosen: Summary[], clear: () => void) => Promise<void> {
  const confirm = useConfirm();
  return async (chosen, clear) => {
    if (!(await confirm({ title: texts.deleteManyTitle(chosen.length), body: texts.deleteManyBody, confirm: texts.deleteMany, isDangerous: true }))) return;
    try {
      const body: Schemas["RunBatch"] = { action: "delete", ids: chosen.map((it) => it.id), filter: null, decision: null, dry_run: false };
      const { items } = await need(api.POST("/v1/batch", { body }));
      const refused = items.filter((it) => it.status === "refused");
      if (refused[0] !== undefined) noteError(new Error(refused[0].error ?? refused[0].status));
      noteDone(texts.deletedMany(items.length - refused.length, refused.length));
      clear();
      await refreshKinds("thread", "run", "ticket", "dispatch");
    } catch (error) {
      noteError(error);
    }
  };
}

export function ThreadsPage() {
  const { sort, columns, ...filters } = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const may = useMay();
  const deleteThreads = useDeleteThreads();
  const list = usePagedList<Summary>(["thread", "list", filters], (cursor, signal): Promise<SearchedPage> => {
    if (filters.q !== undefined) return need(api.GET("/v1/threads/search", { params: { query: { q: filters.q, limit: 200 } }, signal }));
    const query = { resource_id: filters.owner, parent_thread_id: filters.parent, root: filters.root === "true" ? true : undefined, demo: filters.demo === "true" ? true : undefined, cursor, limit: 100 };
    return need(api.GET("/v1/threads/summaries", { params: { query }, signal }));
  });
  const searched = list.data?.pages[0] as SearchedPage | undefined;
  const isFiltered = Object.values(filters).some((it) => it !== undefined);
  const toolbar = (
    <Group gap="xs">
      <Filters
        values={filters} onChange={change} text={{ name: "q", placeholder: texts.search }}
        choices={filters.q !== undefined ? [] : [
          { name: "root", label: texts.kinds, options: [{ value: "true", label: texts.rootsOnly }], width: 160 },
          WITH_DEMO,
        ]}
      />
      {filters.owner === undefined ? null : <Button variant="subtle" rightSection={<IconX size={13} />} onClick={() => change({ owner: undefined })}>{texts.ownerIs(filters.owner)}</Button>}
      {searched?.looked_at === undefined ? null : <Text size="xs" c="dimmed" role="status">{searched.is_complete === true ? texts.searchedAll(formatCount(searched.looked_at)) : texts.searchedLatest(formatCount(searched.looked_at))}</Text>}
      <OpenById />
    </Group>
  );
  return (
    <Page title={shell.pages.threads} description={texts.description}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.threads}
          rows={list.rows}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => void navigate({ to: "/threads/$threadId", params: { threadId: it.id } })}
          selectionActions={(chosen, clear) => (
            <Tooltip label={texts.needsInvoke} disabled={may("invoke")}><Button c={DANGER_TEXT} disabled={!may("invoke")} onClick={() => void deleteThreads(chosen, clear)}>{texts.deleteMany}</Button></Tooltip>
          )}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          toolbar={toolbar}
          empty={isFiltered ? <Empty title={texts.emptyFiltered} /> : (
            <Empty title={texts.empty} action={<><Button variant="filled" renderRoot={(props) => <Link to="/chat/{-$threadId}" {...props} />}>{texts.startChat}</Button><ShowDemo onShow={() => change({ demo: "true" })} /></>} command={texts.command}>{texts.emptyHelp}</Empty>
          )}
        />
      )}
    </Page>
  );
}
