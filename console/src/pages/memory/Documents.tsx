/** The documents that agents search: added, searched as an agent does it, deleted. */
import { Group, Select, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { api, need, type Schemas } from "../../api/client";
import { usePagedList } from "../../api/paging";
import { refreshKinds } from "../../api/queries";
import { memory as texts } from "../../texts/memory";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { ShowDemo } from "../../ui/DemoData";
import { Filters } from "../../ui/Filters";
import { formatCount } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Age } from "../../ui/parts";
import { SafeText, ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";
import { IngestDrawer } from "./IngestDrawer";
import classes from "./memory.module.css";

const route = getRouteApi("/memory");
const ADDING = "+";
const FOUND = 20;
type Document = Schemas["DocumentView"];

function useColumns(collection: string): readonly DataColumn<Document>[] {
  const confirm = useConfirm();
  return useMemo(() => {
    const remove = async (it: Document) => {
      const title = it.title || it.id;
      if (!(await confirm({ title: texts.removeTitle(title), body: <Text size="sm">{texts.removeBody}</Text>, confirm: texts.remove, isDangerous: true }))) return;
      try {
        await need(api.DELETE("/v1/knowledge/{collection}/documents/{document_id}", { params: { path: { collection, document_id: it.id } } }));
        noteDone(texts.removed);
        await refreshKinds("memory", "audit");
      } catch (error) {
        noteError(error);
      }
    };
    const named = texts.documentColumns;
    return [
      { id: "title", header: named.title, cell: (it) => <span className={classes.text} title={it.id}><ShownText text={it.title || texts.untitled} /></span>, sortValue: (it) => it.title },
      { id: "actions", header: named.actions, cell: (it) => <GatedButton scope="decide" onClick={() => void remove(it)}>{texts.remove}</GatedButton> },
      { id: "format", header: named.format, cell: (it) => texts.formats[it.format] ?? it.format, sortValue: (it) => it.format },
      { id: "chunks", header: named.chunks, cell: (it) => formatCount(it.chunks), sortValue: (it) => it.chunks, isRight: true },
      { id: "chars", header: named.chars, cell: (it) => formatCount(it.chars), sortValue: (it) => it.chars, isRight: true },
      { id: "source", header: named.source, cell: (it) => <span className={classes.text} title={it.source}><ShownText text={it.source || ui.none} /></span>, sortValue: (it) => it.source },
      { id: "by", header: named.by, cell: (it) => it.added_by ?? ui.none, sortValue: (it) => it.added_by },
      { id: "created", header: named.created, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at },
    ];
  }, [collection, confirm]);
}

/** The passages that an agent would be given for these words. */
function Passages({ collection, query }: { collection: string; query: string }) {
  const { data, error, refetch } = useQuery({
    queryKey: ["memory", "passages", collection, query],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/knowledge/{collection}/search", { signal, params: { path: { collection }, query: { query, limit: FOUND } } }))).items,
  });
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  if (data.length === 0) return <Empty title={texts.noPassages}>{texts.noPassagesHelp}</Empty>;
  return (
    <Stack gap="xs">
      <Title order={2}>{texts.passages}</Title>
      <ol className={classes.list}>
        {data.map((it) => (
          <li key={`${it.document_id} ${it.position}`} className={classes.passage}>
            <Text size="sm" fw={600}><ShownText text={it.title || it.source || texts.untitled} /></Text>
            <Text size="xs" c="dimmed" mb={4}><ShownText text={[it.heading, it.page === null ? "" : texts.onPage(it.page), it.source].filter((part) => part !== "").join(" · ")} /></Text>
            <SafeText text={it.text} label={texts.passage(it.title || texts.untitled, it.position)} maxHeight={220} />
          </li>
        ))}
      </ol>
    </Stack>
  );
}

function Collection({ name }: { name: string }) {
  const { sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const list = usePagedList<Document>(["memory", "documents", name], (cursor, signal) => need(api.GET("/v1/knowledge/{collection}/documents", { signal, params: { path: { collection: name }, query: { cursor, limit: 100 } } })));
  const shownColumns = useColumns(name);
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  return (
    <DataTable
      label={texts.views.documents}
      rows={list.rows}
      columns={shownColumns}
      rowId={(it) => it.id}
      address={{ sort, columns }}
      onAddress={change}
      hasMore={list.hasNextPage}
      isLoadingMore={list.isFetchingNextPage}
      onMore={() => void list.fetchNextPage()}
      empty={<Empty title={texts.noDocuments}>{texts.noDocumentsHelp}</Empty>}
      height="calc(100vh - 260px)"
    />
  );
}

export function Documents() {
  const { collection: asked, find, open } = route.useSearch();
  const change = useChangeSearch();
  const { data, error, refetch } = useQuery({ queryKey: ["memory", "collections"], queryFn: async ({ signal }) => (await need(api.GET("/v1/knowledge", { signal }))).items });
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  const collection = asked ?? data[0]?.name;
  const names = data.map((it) => it.name);
  const add = <GatedButton scope="decide" variant="filled" onClick={() => change({ open: ADDING })}>{texts.ingest}</GatedButton>;
  const options = [...data.map((it) => ({ value: it.name, label: texts.items(it.name, it.items) })), ...(collection === undefined || names.includes(collection) ? [] : [{ value: collection, label: collection }])];
  return (
    <>
      {collection === undefined ? <Empty title={texts.noDocuments} action={<>{add}<ShowDemo onShow={() => change({ collection: "demo-data-handbook" })} /></>} command={texts.documentsCommand}>{texts.noDocumentsHelp}</Empty> : (
        <>
          <Group gap="xs" mb="sm">
            <Select aria-label={texts.collection} data={options} value={collection} allowDeselect={false} onChange={(next) => change({ collection: next ?? undefined, find: undefined })} w={220} />
            <Filters values={{ find }} onChange={change} text={{ name: "find", placeholder: texts.find }} />
            {add}
          </Group>
          {find === undefined ? <Collection key={collection} name={collection} /> : <Passages collection={collection} query={find} />}
        </>
      )}
      <IngestDrawer isOpen={open === ADDING} collection={collection} collections={names} onClose={(made) => change({ open: undefined, ...(made === undefined ? {} : { collection: made, find: undefined }) })} />
    </>
  );
}
