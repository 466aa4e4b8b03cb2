/** Skills: the list, the body editor, and who sees each. */
import { Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { capabilitiesQuery, recordsQuery, type ConfigRecord } from "../../api/config";
import { skills as texts } from "../../texts/servers";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import type { DataColumn } from "../../ui/DataTable";
import { formatBytes } from "../../ui/format";
import { Page } from "../../ui/Page";
import { isObject } from "../../ui/schema/model";
import { NeedsScope } from "../../ui/states";
import { Owner, UPDATED_COLUMN } from "../records/parts";
import { Part, RecordList } from "../records/RecordList";
import { useRecords, type RecordRow } from "../records/useRecords";

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

function describeSkill({ record }: RecordRow): string {
  return String(record.description ?? "");
}

const COLUMNS: readonly DataColumn<SkillRow>[] = [
  { id: "description", header: texts.columns.description, cell: (it) => <Text span c="dimmed" size="sm" title={describeSkill(it)}>{describeSkill(it)}</Text> },
  { id: "agents", header: texts.columns.agents, cell: (it) => <span title={it.agents.join(", ")}>{it.agents.length}</span>, sortValue: (it) => it.agents.length, isRight: true },
  { id: "size", header: texts.columns.size, cell: (it) => (typeof it.record.body === "string" ? formatBytes(it.record.body.length) : ui.none), sortValue: (it) => String(it.record.body ?? "").length, isRight: true },
  { id: "source", header: texts.columns.source, cell: (it) => <Owner owner={it.facts?.owner ?? (it.isManaged ? undefined : "code")} hasDrift={it.facts?.drift} /> },
  UPDATED_COLUMN,
];
const FORM = { template: { description: "", body: "" }, hide: ["instructions_md"], multiline: ["body", "description", "when_to_use"] } as const;

export function SkillsPage() {
  return <NeedsScope scope="config"><SkillList /></NeedsScope>;
}

function SkillList() {
  const { list, rows } = useRecords("skills");
  const { data: agents = [] } = useQuery(recordsQuery("agents"));
  const { data: capabilities } = useQuery(capabilitiesQuery);
  const all = useMemo(() => {
    const managed = rows.map((it): SkillRow => ({ ...it, agents: findReaders(it.id, agents), isManaged: true }));
    const known = new Set(managed.map((it) => it.id));
    const others = (capabilities?.skills ?? []).filter((it) => !known.has(it.id));
    return [...managed, ...others.map((it): SkillRow => ({ id: it.id, record: it as unknown as ConfigRecord, facts: undefined, agents: findReaders(it.id, agents), isManaged: false }))];
  }, [rows, agents, capabilities]);
  return (
    <Page title={shell.pages.skills} description={texts.description}>
      <RecordList label={shell.pages.skills} namespace="skills" texts={texts} search={route.useSearch()} list={list} rows={all} columns={COLUMNS} form={FORM} describe={describeSkill} isEditable={(it) => it.isManaged} details={{ body: (it) => <SkillDetails row={it} /> }} />
    </Page>
  );
}

function SkillDetails({ row }: { row: SkillRow }) {
  return (
    <>
      <Text size="sm">{describeSkill(row)}</Text>
      {row.isManaged ? null : <Text size="xs" c="dimmed">{texts.fromFolder}</Text>}
      <Part title={texts.whoSees}>{row.agents.length === 0 ? <Text size="sm" c="dimmed">{texts.nobody}</Text> : <Group gap="xs">{row.agents.map((it) => <Link key={it} to="/agents/$agentId" params={{ agentId: it }}>{it}</Link>)}</Group>}</Part>
      {typeof row.record.body === "string" ? <Part title={texts.body}><Text size="sm" ff="monospace" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{row.record.body}</Text></Part> : null}
    </>
  );
}
