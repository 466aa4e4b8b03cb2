/** What the first page reads, as far as it reads it. */
import type { Schemas } from "../../api/client";

export type Health = { status: string; components: Record<string, string> };
export type Head = { publication: number | null; switches: readonly Pick<Schemas["Switch"], "kind" | "id">[] };
export type Worker = Pick<Schemas["WorkerEntry"], "id" | "running" | "slots"> & { problem?: string | null };
export type ModelState = Pick<Schemas["ModelStatus"], "model_id" | "state">;
export type BudgetStatus = Pick<Schemas["BudgetStatus"], "budget" | "used">;
export type Counted = { count: number; isMore: boolean };
