/** The samples of an eval by case and variant, and what each says. Pure. */
import type { EvalItem } from "../../api/evals";

/** What a sample says: `partly` is one that something could not score, `open` one that is not there yet. */
export type Look = "passed" | "failed" | "partly" | "missing" | "open";
export type Cell = { variant: string; items: readonly EvalItem[]; looks: readonly Look[]; passed: number; failed: number; missing: number; isFlaky: boolean; rate: number | null };
export type CaseRow = { caseId: string; cells: readonly Cell[]; isFlaky: boolean; isChanged: boolean; hasMissing: boolean; hasFailed: boolean };

/** Whether a sample says nothing about its variant. */
export function isMissing({ status }: Pick<EvalItem, "status">): boolean {
  return status === "cut" || status === "infra_error";
}

/** What one sample says, by all scorers or by one. */
export function judgeItem(item: EvalItem, scorer?: string): Look {
  if (isMissing(item)) return "missing";
  if (item.status !== "scored") return "failed";
  const scores = scorer === undefined ? item.scores : item.scores.filter((it) => it.name === scorer);
  if (scores.some((it) => it.passed === false)) return "failed";
  if (scores.length === 0 || scores.some((it) => it.error != null || it.value == null)) return "partly";
  return "passed";
}

function buildCell(variant: string, items: readonly EvalItem[], repeats: number, scorer: string | undefined): Cell {
  const sorted = [...items].sort((a, b) => a.sample - b.sample);
  const judged = sorted.map((it) => judgeItem(it, scorer));
  const count = (look: Look) => judged.filter((it) => it === look).length;
  const [passed, failed] = [count("passed"), count("failed")];
  const open = Array.from({ length: Math.max(0, repeats - judged.length) }, (): Look => "open");
  return { variant, items: sorted, looks: [...judged, ...open], passed, failed, missing: count("missing"), isFlaky: passed > 0 && failed > 0, rate: passed + failed === 0 ? null : passed / (passed + failed) };
}

/** Every case with a cell for each variant, in the order of the plan. A case has changed if its variants do not all pass as often. */
export function buildRows(items: readonly EvalItem[], variants: readonly string[], repeats: number, scorer?: string): CaseRow[] {
  const byCase = new Map<string, EvalItem[]>();
  for (const it of items) byCase.set(it.case_id, [...(byCase.get(it.case_id) ?? []), it]);
  return [...byCase].map(([caseId, own]) => {
    const cells = variants.map((variant) => buildCell(variant, own.filter((it) => it.variant === variant), repeats, scorer));
    const rates = cells.flatMap((it) => (it.rate === null ? [] : [it.rate]));
    return { caseId, cells, isFlaky: cells.some((it) => it.isFlaky), isChanged: rates.some((it) => it !== rates[0]), hasMissing: cells.some((it) => it.missing > 0), hasFailed: cells.some((it) => it.failed > 0) };
  });
}

/** How many samples each cell has: as the spec says, else as many as the fullest has. */
export function countRepeats(items: readonly EvalItem[], given: number | null | undefined): number {
  return given ?? items.reduce((most, it) => Math.max(most, it.sample + 1), 1);
}

/** The scorers that scored something, in the order of their first score. */
export function listScorers(items: readonly EvalItem[]): string[] {
  return [...new Set(items.flatMap((it) => it.scores.map((score) => score.name)))];
}

/** The money and tokens of the samples; null: of none it is known. */
export function addSpent(items: readonly EvalItem[]): { tokens: number | null; cost_usd: number | null } {
  const add = (values: readonly (number | null | undefined)[]) => {
    const known = values.filter((it) => it != null);
    return known.length === 0 ? null : known.reduce((sum, it) => sum + it, 0);
  };
  const tokensOf = ({ usage }: EvalItem) => usage?.total_tokens ?? (usage?.prompt_tokens == null && usage?.completion_tokens == null ? null : (usage.prompt_tokens ?? 0) + (usage.completion_tokens ?? 0));
  return { tokens: add(items.map(tokensOf)), cost_usd: add(items.map((it) => it.cost_usd)) };
}
