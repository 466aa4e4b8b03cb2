import { join } from "node:path";

import type { Locator, Page } from "@playwright/test";

import { expect, expectAccessible, open, Server, test } from "./fixtures";

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
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await press(page.getByRole("button", { name: "live, sample 1: failed" }));
      await press(page.getByRole("link", { name: "Open in the lab" }));
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
      await page.keyboard.type("Looks first");
      await press(dialog.getByRole("button", { name: "Publish" }));
      await expect(dialog.getByText("run an eval of the draft").first()).toBeVisible();
      await page.keyboard.press("Escape");
      await press(page.getByRole("button", { name: "Run the gate" }));
      await expect(page.getByText("gate passed")).toBeVisible();
      await press(page.getByRole("button", { name: "Publish…" }));
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
