/** Parts of cases, and the differences of two revisions. Pure. */
import type { Case, Dataset } from "../../api/evals";
import { compareFields, type RecordChange } from "../../ui/compare";
import { datasets as texts } from "../../texts/datasets";

export function readTags(it: Case): readonly string[] {
  return Array.isArray(it.tags) ? it.tags.map(String) : [];
}

/** Whether nobody has confirmed yet what the case expects. */
export function isWaiting(it: Case): boolean {
  return it.status === "draft";
}

/** What differs between two revisions: cases by their ids, and what the dataset says itself. */
export function compareRevisions(before: Dataset, after: Dataset): RecordChange[] {
  const own = ({ description, scorers, gate }: Dataset) => ({ description, scorers, gate });
  const settings = compareFields(own(before), own(after));
  const ids = [...new Set([...before.cases, ...after.cases].map((it) => it.id))];
  const cases = ids.flatMap((id): RecordChange[] => {
    const [old, now] = [before.cases.find((it) => it.id === id), after.cases.find((it) => it.id === id)];
    const fields = compareFields(old, now);
    if (fields.length === 0) return [];
    return [{ ns: "cases" as RecordChange["ns"], id, state: old === undefined ? "added" : now === undefined ? "deleted" : "changed", fields }];
  });
  return settings.length === 0 ? cases : [{ ns: "cases" as RecordChange["ns"], id: texts.revisions.settingsPart, state: "changed", fields: settings }, ...cases];
}

/** Scorers that the cases of a dataset bring, by the names that gates know them by. */
export function listCaseScorers(dataset: Dataset): string[] {
  const named = [...dataset.scorers, ...dataset.cases.flatMap((it) => (Array.isArray(it.scorers) ? (it.scorers as unknown as { scorer: string; name?: string }[]) : []))].map((it) => it.name || it.scorer);
  const expected = dataset.cases.flatMap((it) => (it.expect !== null && typeof it.expect === "object" ? Object.keys(it.expect) : [])).map((it) => EXPECTED[it] ?? null).filter((it) => it !== null);
  return [...new Set([...named, ...expected])].sort();
}

/** What the fields of an expectation are called as scorers. */
const EXPECTED: Readonly<Record<string, string>> = {
  final_answer_contains: "expect.contains", final_answer_excludes: "expect.excludes", tool_sequence: "expect.tool_sequence", forbidden_tools: "expect.forbidden_tools", required_tool_calls: "expect.tool_call.1",
  max_tokens_total: "expect.max_tokens", max_duration_ms: "expect.max_ms", min_judge_score: "expect.judge", expected_error_type: "expect.error_type",
};
