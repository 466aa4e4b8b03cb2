/** Skills: the list, the body editor, and who sees each. */
import { Drawer, Group, Stack, Text, Title } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { capabilitiesQuery, recordsQuery, type ConfigRecord } from "../../api/config";
import { records } from "../../texts/records";
import { skills as texts } from "../../texts/servers";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { formatBytes } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Age, CopyableId, JsonText } from "../../ui/parts";
import { isObject } from "../../ui/schema/model";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { ActionButton, Owner } from "../records/parts";
import { RecordDrawer } from "../records/RecordDrawer";
import { useDelete, useRecords, type RecordRow } from "../records/useRecords";

const route = getRouteApi("/skills");
type SkillRow = RecordRow & { agents: string[]; isManaged: boolean };

/** Which agents can read a skill: those with the plugin whose section lets it through. Pure. */
export function findReaders(skillId: string, agents: readonly ConfigRecord[]): string[] {
  const has = (value: unknown) => Array.isArray(value) && value.includes(skillId);
  return agents.filter((it) => {
    if (!Array.isArray(it.plugin_ids) || !(it.plugin_ids as unknown[]).includes("skills")) return false;
    const section = isObject(it.sections) && isObject(it.sections.skills) ? it.sections.skills : {};
    return !has(section.excluded) && (section.allowed === undefined || section.allowed === null || has(section.allowed));
  }).map((it) => it.id);
}

const COLUMNS: readonly DataColumn<SkillRow>[] = [
  { id: "skill", header: texts.columns.skill, cell: (it) => <Link to="/skills" search={(now) => ({ ...now, id: it.id })}>{it.id}</Link>, sortValue: (it) => it.id },
  { id: "description", header: texts.columns.description, cell: (it) => <Text span c="dimmed" size="sm" title={String(it.record.description ?? "")}>{String(it.record.description ?? "")}</Text> },
  { id: "agents", header: texts.columns.agents, cell: (it) => <span title={it.agents.join(", ")}>{it.agents.length}</span>, sortValue: (it) => it.agents.length, isRight: true },
  { id: "size", header: texts.columns.size, cell: (it) => (typeof it.record.body === "string" ? formatBytes(it.record.body.length) : ui.none), sortValue: (it) => String(it.record.body ?? "").length, isRight: true },
  { id: "source", header: texts.columns.source, cell: (it) => <Owner owner={it.meta?.owner ?? (it.isManaged ? undefined : "code")} hasDrift={it.meta?.drift} /> },
  { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.meta === undefined || it.meta.updated_at === 0 ? null : it.meta.updated_at} />, sortValue: (it) => it.meta?.updated_at ?? 0 },
];

export function SkillsPage() {
  return <NeedsScope scope="config"><SkillList /></NeedsScope>;
}

const TEMPLATE = { description: "", body: "" } as const;

function SkillList() {
  const { q, id, edit, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const { list, rows } = useRecords("skills");
  const { data: agents = [] } = useQuery(recordsQuery("agents"));
  const { data: capabilities } = useQuery(capabilitiesQuery);
  const all = useMemo(() => {
    const managed = rows.map((it): SkillRow => ({ ...it, agents: findReaders(it.id, agents), isManaged: true }));
    const known = new Set(managed.map((it) => it.id));
    const others = (capabilities?.skills ?? []).filter((it) => !known.has(it.id));
    return [...managed, ...others.map((it): SkillRow => ({ id: it.id, record: it as ConfigRecord, meta: undefined, agents: findReaders(it.id, agents), isManaged: false }))];
  }, [rows, agents, capabilities]);
  const shown = all.filter((it) => q === undefined || `${it.id} ${String(it.record.description ?? "")}`.toLowerCase().includes(q.toLowerCase()));
  const add = <ActionButton scope="config" variant="filled" leftSection={<IconPlus size={14} />} onClick={() => change({ edit: "new" })}>{texts.add}</ActionButton>;
  return (
    <Page title={shell.pages.skills} description={texts.description} actions={add}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.skills}
          rows={shown}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ id: it.id })}
          toolbar={all.length === 0 ? null : <Filters values={{ q }} onChange={change} text={{ name: "q", placeholder: texts.search }} />}
          empty={all.length > 0 ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} action={add} command={texts.command}>{texts.emptyHelp}</Empty>}
        />
      )}
      <SkillDrawer row={edit === undefined ? all.find((it) => it.id === id) : undefined} onClose={() => change({ id: undefined })} onEdit={(it) => change({ edit: it })} />
      <RecordDrawer namespace="skills" name={texts.one} id={edit === "new" ? "" : edit} onClose={() => change({ edit: undefined })} template={TEMPLATE} hide={["instructions_md"]} multiline={["body", "description", "when_to_use"]} onPublished={(it) => change({ edit: undefined, id: it })} />
    </Page>
  );
}

function SkillDrawer({ row, onClose, onEdit }: { row: SkillRow | undefined; onClose: () => void; onEdit: (id: string) => void }) {
  const remove = useDelete("skills");
  return (
    <Drawer opened={row !== undefined} onClose={onClose} title={row?.id} size="lg" closeButtonProps={{ "aria-label": ui.close }}>
      {row === undefined ? null : (
        <Stack gap="md">
          <Group justify="space-between" gap="xs">
            <CopyableId id={row.id} chars={40} />
            {row.isManaged ? (
              <Group gap="xs">
                <ActionButton scope="config" onClick={() => onEdit(row.id)}>{records.edit}</ActionButton>
                <ActionButton scope="publish" color="red" variant="outline" onClick={() => void remove(row.id).then((is) => is && onClose())}>{records.delete}</ActionButton>
              </Group>
            ) : null}
          </Group>
          <Text size="sm">{String(row.record.description ?? "")}</Text>
          {row.isManaged ? null : <Text size="xs" c="dimmed">{texts.fromFolder}</Text>}
          <div><Title order={3} mb={4}>{texts.whoSees}</Title>{row.agents.length === 0 ? <Text size="sm" c="dimmed">{texts.nobody}</Text> : <Group gap="xs">{row.agents.map((it) => <Link key={it} to="/agents/$agentId" params={{ agentId: it }}>{it}</Link>)}</Group>}</div>
          {typeof row.record.body === "string" ? <div><Title order={3} mb={4}>{texts.body}</Title><Text size="sm" ff="monospace" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{row.record.body}</Text></div> : null}
          <div><Title order={3} mb={4}>{records.asJson}</Title><JsonText value={row.record} /></div>
        </Stack>
      )}
    </Drawer>
  );
}
