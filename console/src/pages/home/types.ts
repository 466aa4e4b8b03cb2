/** What the first page reads; the API's document leaves these replies open. */
export type Health = { status: string; components: Record<string, string> };
export type Head = { publication: number | null; switches: { kind: string; target: string }[] };
export type Publication = { publication: number; message?: string; created_by?: string; created_at?: number };
export type Worker = { id: string; running: number; slots: number; problem: string | null };
export type ModelState = { model_id: string; state: string };
export type BudgetStatus = { budget: { cost_usd?: number | null }; used?: { cost_nanos?: number } | null };
export type Counted = { count: number; isMore: boolean };
