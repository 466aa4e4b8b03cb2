import { describe, expect, it } from "vitest";

import { describePrice, mergeModels } from "./merge";

const health = { model_id: "fast", calls: 1, changed_at: null, cost_nanos: 0, error: null, errors: 0, failures: 0, input_tokens: 0, output_tokens: 0, p50_ms: 0, p95_ms: 0, retry_at: null, state: "closed" as const };

describe("models", () => {
  it("have their health and their record in one row", () =>
    expect(mergeModels([health, { ...health, model_id: "scripted" }], [{ id: "fast" }, { id: "slow" }]).map((it) => [it.id, it.health !== null, it.record !== null])).toEqual([
      ["fast", true, true],
      ["scripted", true, false],
      ["slow", false, true],
    ]));
  it("show their price, if they have one", () => {
    expect(describePrice({ id: "fast", input_token_price_per_million_usd: 1.5, output_token_price_per_million_usd: 6 })).toBe("$1.50 / $6.00");
    expect(describePrice({ id: "fast" })).toBeNull();
    expect(describePrice(null)).toBeNull();
  });
});
