import { join } from "node:path";

import type { Locator, Page } from "@playwright/test";

import { expect, expectAccessible, open, Server, test, visit } from "./fixtures";
import { beginDraft } from "./govern";
import { expectNarrow, listSmallTargets } from "./sizes";

/** An agent that refunds without looking, unless its instructions say so; publishing asks for the gate of `refunds`. */
const CLERK = join(import.meta.dirname, "apps/clerk.py");
const CAREFUL = "Help with orders. Always look up an order first.";

/** What takes the focus can be pressed by a key. */
async function press(place: Locator, key = "Enter"): Promise<void> {
  await place.focus();
  await expect(place).toBeFocused();
  await place.page().keyboard.press(key);
}

async function type(place: Locator, text: string): Promise<void> {
  await place.focus();
  await place.page().keyboard.press("ControlOrMeta+a");
  await place.page().keyboard.type(text);
}

/** Chooses an option of a list by its name. */
async function choose(page: Page, place: Locator, option: RegExp | string): Promise<void> {
  await press(place, "ArrowDown");
  const wanted = page.getByRole("option", { name: option });
  await expect(wanted).toBeVisible();
  for (let presses = 0; presses < 30 && (await wanted.getAttribute("data-combobox-selected")) === null; presses += 1) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(wanted).toBeHidden();
}

test("by keyboard alone: a run becomes a case, the case an eval, the eval a comparison, the lab a draft, and the gate lets it be published", async ({ page }) => {
  test.setTimeout(240_000);
  const server = await Server.start([CLERK]);
  try {
    await server.run("clerk", "I want my money back for A-1.");
    await open(page, server, "/runs");
    await test.step("capture", async () => {
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await press(page.getByRole("button", { name: "Save as case" }));
      const dialog = page.getByRole("dialog", { name: "Save as case" });
      await expect(dialog.getByLabel("Dataset")).toBeFocused();
      await page.keyboard.type("refunds");
      await page.keyboard.press("Tab");
      await page.keyboard.type("unpaid");
      await expectAccessible(page, "[role=dialog]");
      await page.keyboard.press("Enter");
      await expect(page.getByRole("heading", { level: 1, name: "refunds" })).toBeVisible();
    });
    await test.step("the case says what should have happened", async () => {
      const drawer = page.getByRole("dialog", { name: "Case unpaid" });
      await expect(drawer.getByText("Proposed from a run")).toBeVisible();
      // The run refunded without looking: exactly that is forbidden now.
      await press(drawer.getByLabel("Tool sequence", { exact: true }), "Backspace");
      await drawer.getByLabel("Forbidden tools").focus();
      await page.keyboard.type("refund");
      await page.keyboard.press("Enter");
      // Tools without effects may answer what the recording does not have.
      await press(drawer.getByRole("tab", { name: "Input and expectation" }), "ArrowRight");
      await page.keyboard.press("Enter");
      await press(drawer.getByRole("button", { name: "Set tools" }));
      await choose(page, drawer.getByRole("combobox", { name: "On miss" }), "live none");
      await expectAccessible(page, "[role=dialog]");
      await press(drawer.getByRole("button", { name: "Confirm and save" }));
      await expect(page.getByText("Confirmed: evals use the case")).toBeVisible();
      await page.keyboard.press("Escape");
      await expect(drawer).toBeHidden();
    });
    await test.step("a gate", async () => {
      await press(page.getByRole("tab", { name: "Scorers and gate" }));
      await press(page.getByRole("switch", { name: "This dataset has a gate" }), "Space");
      await type(page.getByLabel("Scorer", { exact: false }).first(), "expect.forbidden_tools");
      // A fraction is typed digit by digit.
      const rate = page.getByLabel("Min rate", { exact: false }).first();
      await rate.focus();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.type("0.05");
      await expect(rate).toHaveValue("0.05");
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.type("1");
      await press(page.getByRole("button", { name: "Save" }));
      await expect(page.getByText("Saved.", { exact: true })).toBeVisible();
    });
    await test.step("two evals, and what lies between them", async () => {
      await press(page.getByRole("button", { name: "Start an eval" }));
      const drawer = page.getByRole("dialog", { name: "New eval" });
      await type(drawer.getByLabel("Repeats"), "2");
      await expect(drawer.getByText("2 samples of 1 case")).toBeVisible();
      await press(drawer.getByRole("button", { name: "Start" }));
      await expect(page.getByText("gate failed").first()).toBeVisible();
      await press(page.getByRole("button", { name: "Run again" }));
      await type(drawer.getByLabel("Name"), "careful");
      await type(drawer.getByLabel("Instructions"), CAREFUL);
      await press(drawer.getByRole("button", { name: "Start" }));
      await expect(page.getByText("gate passed").first()).toBeVisible();
      await expect(page.getByText("2 of 2")).toBeVisible();
      await press(page.getByRole("link", { name: "Compare with another" }));
      await choose(page, page.getByRole("combobox", { name: "First (before)" }), /refunds · live · .*/);
      await expect(page.getByText("at least two are needed").first()).toBeVisible();
      await press(page.getByRole("button", { name: "unpaid" }));
      await expect(page.getByText("This order was not paid.").first()).toBeVisible();
    });
    await test.step("the lab", async () => {
      for (const key of ["g", "v"]) await page.keyboard.press(key);
      await expect(page.getByRole("heading", { level: 1, name: "Evals", exact: true })).toBeVisible();
      // The older one, which failed.
      await expect(page.getByText("gate failed")).toBeVisible();
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await press(page.getByRole("button", { name: "live, sample 1: failed" }));
      await press(page.getByRole("link", { name: "Open in the lab" }));
      // Its rules have the form that the agent's own page has for them.
      await press(page.getByText("Rules", { exact: true }));
      await press(page.getByRole("button", { name: "Turn the rules on" }));
      await expect(page.getByRole("group", { name: "Rules", exact: true }).first()).toBeVisible();
      await press(page.getByRole("button", { name: "As recorded" }));
      await type(page.getByLabel("Prompt"), CAREFUL);
      await press(page.getByRole("button", { name: "Run", exact: true }));
      await expect(page.getByText("It parts from the recording at step 1")).toBeVisible();
      await expectAccessible(page);
      await press(page.getByRole("button", { name: "Save variant as draft" }));
      await expect(page.getByRole("heading", { level: 1, name: "clerk from the lab" })).toBeVisible();
    });
    await test.step("the gate, and publishing", async () => {
      await press(page.getByRole("button", { name: "Publish…" }));
      const dialog = page.getByRole("dialog", { name: "Make this draft live" });
      await expect(dialog.getByRole("textbox").first()).toBeFocused();
      await page.keyboard.type("Looks first");
      await press(dialog.getByRole("button", { name: "Publish" }));
      await expect(dialog.getByText("run an eval of the draft").first()).toBeVisible();
      await page.keyboard.press("Escape");
      await press(page.getByRole("button", { name: "Run the gate" }));
      await expect(page.getByText("gate passed")).toBeVisible();
      await press(page.getByRole("button", { name: "Publish…" }));
      await expect(dialog.getByRole("textbox").first()).toBeFocused();
      await press(dialog.getByRole("button", { name: "Publish" }));
      await expect(page.getByText(/Publication \d+ is live\./)).toBeVisible();
    });
    // Nothing was refunded in all of this but by the run at the beginning.
    const counted = await server.ask<{ text: string }>("POST", "/v1/runs", { agent_id: "clerk", messages: [{ role: "user", content: "count" }] });
    expect(counted.text).toBe("1 refunds");
    const now = await server.ask<{ text: string }>("POST", "/v1/runs", { agent_id: "clerk", messages: [{ role: "user", content: "I want my money back for A-1." }] });
    expect(now.text).toBe("This order was not paid.");
  } finally {
    await server.close();
  }
});

type Made = { eval_id: string; status?: string };

/** Runs an eval to its end. */
async function evaluate(server: Server, spec: object): Promise<string> {
  const { eval_id: id } = await server.ask<Made>("POST", "/v1/evals", spec);
  await expect.poll(async () => (await server.ask<Made>("GET", `/v1/evals/${id}`)).status ?? "planned").toMatch(/done|incomplete|failed/);
  return id;
}

test("pages with data are accessible and fit a small screen; a judge is calibrated by keys; what is missing is no zero", async ({ page }) => {
  test.setTimeout(240_000);
  const server = await Server.start([CLERK]);
  try {
    const run = await server.run("clerk", "I want my money back for A-1.");
    const dataset = { id: "judged", spec: { description: "Unpaid orders", fixtures: [], scorers: [{ scorer: "judge", options: { rubric: "It refuses.", model_id: "orders" } }] } };
    await server.ask("POST", "/v1/eval/datasets", dataset);
    const saved = await server.ask<{ spec: { fixtures: Record<string, unknown>[] } }>("POST", "/v1/eval/datasets/judged/items", { from_run_id: run.run_id, fixture_id: "unpaid", tags: ["refund"] });
    const fixtures = saved.spec.fixtures.map((it) => ({ ...it, status: "ready", expect: { forbidden_tools: ["refund"] }, tools: { on_miss: "live_none" } }));
    await server.ask("PUT", "/v1/eval/datasets/judged", { expected_revision: 2, spec: { ...saved.spec, fixtures } });
    const variants = [{ name: "live" }, { name: "careful", instructions: CAREFUL }];
    const id = await evaluate(server, { dataset_id: "judged", repeats: 1, variants });
    const cut = await evaluate(server, { dataset_id: "judged", repeats: 2, budget: { tokens: 1 } });

    await open(page, server, "/datasets");
    const small: string[] = [];
    for (const path of ["/datasets", "/datasets/judged", "/datasets/judged?tab=revisions", "/datasets/judged?tab=settings", "/evals", `/evals/${id}`, `/evals/${id}?item=0`, `/compare?first=${id}&second=${id}&case=unpaid`, `/lab?run=${run.run_id}`, "/calibration"]) {
      await visit(page, path);
      await test.step(path, async () => {
        await expectAccessible(page);
        small.push(...(await listSmallTargets(page, path)));
        await expectNarrow(page, path);
      });
    }
    expect(small).toEqual([]);

    // The judge's verdict is hidden until a person has said theirs.
    await expect(page.getByText("hidden until you label it")).toBeVisible();
    await page.keyboard.press("f");
    await expect(page.getByText("Unlabelled (1)")).toBeVisible();
    await page.keyboard.press("p");
    await expect(page.getByText("Everything here is labelled.")).toBeVisible();
    await expect(page.getByText("2 of at least 30 labels")).toBeVisible();
    const { labels, agreement } = await server.ask<{ labels: number; agreement: number }>("GET", "/v1/eval/judges/judge/calibration");
    expect([labels, agreement]).toEqual([2, 1]);

    await visit(page, `/evals/${cut}`);
    await expect(page.getByText("Samples are missing")).toBeVisible();
    await expect(page.getByText("0 of 2", { exact: true })).toBeVisible();
    await expect(page.getByText("No sample has a score.")).toBeVisible();
    const cases = page.getByRole("region", { name: "Cases, table" });
    await expect(cases.getByText("missing", { exact: true })).toBeVisible();
    expect(await cases.textContent()).not.toContain("0 %");
    await expect(cases.getByRole("button", { name: "default, sample 1: cut" })).toBeVisible();

    // A draft whose gate ran before all that others try.
    const gated = await server.ask<{ spec: Record<string, unknown>; meta: { revision: number } }>("GET", "/v1/eval/datasets/judged");
    await server.ask("PUT", "/v1/eval/datasets/judged", { expected_revision: gated.meta.revision, spec: { ...gated.spec, gate: { require: [{ scorer: "expect.forbidden_tools", min_rate: 1 }] } } });
    const draft = await beginDraft(server, "Tried long ago", { tried: { model_id: "orders" } });
    await evaluate(server, { dataset_id: "judged", repeats: 1, budget: { tokens: 1 }, variants: [{ name: "live" }, { name: "draft", draft_id: draft }] });

    // A list that is not on the screen hears of them all the same. The first evals are on the last page of a hundred and three.
    await visit(page, "/evals");
    await expect(page.getByText("3 rows", { exact: true })).toBeVisible();
    await visit(page, `/changes?draft=${draft}`);
    for (let made = 0; made < 100; made += 1) await server.ask("POST", "/v1/evals", { dataset_id: "judged", repeats: 1, budget: { tokens: 1 } });
    await visit(page, "/evals");
    await expect(page.getByText(/^100\+? rows/)).toBeVisible();
    await page.getByRole("button", { name: "Load more" }).click();
    await expect(page.getByText("103 rows")).toBeVisible();
    await expect(page.getByRole("button", { name: "Load more" })).toHaveCount(0);
    await visit(page, `/changes?draft=${draft}`);
    await expect(page.getByRole("region", { name: "judged" }).getByRole("link", { name: "Open the eval" })).toBeVisible();
  } finally {
    await server.close();
  }
});
