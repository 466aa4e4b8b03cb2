import { enter, expect, expectAccessible, open, test, visit } from "./fixtures";
import { publishRecord, saveInNewDraft, unique, writeJson, writeRecord } from "./govern";

test("a provider, a model and a pool are made, with problems on their path and a key that is never shown", async ({ page, server }) => {
  const [provider, model, pool] = [unique("acme"), unique("fast"), unique("best")];
  await open(page, server, "/models?tab=providers");
  await page.getByRole("button", { name: "New provider" }).first().click();
  await page.getByRole("textbox", { name: "ID", exact: true }).fill(provider);
  await writeRecord(page, { adapter: "nonsense" });
  await expect(page.getByRole("alert")).toContainText(`providers/${provider}/adapter`);
  await writeJson(page, "Record as JSON", { adapter: "openai", base_url: "http://127.0.0.1:9/v1", api_key: "sk-canary-value" });
  await expect(page.getByText("It compiles.")).toBeVisible();
  await expectAccessible(page, "[role=dialog]");
  await publishRecord(page, "Our own server");
  const row = page.getByRole("row", { name: new RegExp(provider) });
  await expect(row).toContainText(`store:providers/${provider}/api_key`);
  await expect(page.getByRole("dialog")).toHaveCount(0);
  expect(await page.content()).not.toContain("sk-canary-value");

  await row.getByRole("button", { name: "Test with a call" }).click();
  await expect(page.getByText(new RegExp(`^${provider}: `))).toBeVisible();

  await visit(page, "/models?edit=%2B");
  await page.getByRole("textbox", { name: "ID", exact: true }).fill(model);
  await page.getByRole("combobox", { name: "Provider ID" }).fill(provider);
  await page.getByRole("textbox", { name: "Upstream model" }).fill("gpt-x");
  await writeRecord(page, { provider_id: provider, upstream_model: "gpt-x", input_token_price_per_million_usd: 1.5, output_token_price_per_million_usd: 6 });
  await publishRecord(page, "A model");
  await expect(page.getByRole("row", { name: new RegExp(model) })).toContainText("$1.50 / $6.00");

  await server.ask("PUT", `/v1/config/model-pools/${pool}`, { members: [{ model_id: model }] });
  await visit(page, "/models?tab=pools");
  await expect(page.getByRole("row", { name: new RegExp(pool) })).toContainText(model);
  await expectAccessible(page);
});

test("a change goes into a draft, and nothing is live", async ({ page, server }) => {
  const provider = unique("drafted");
  await enter(page, server, "/models?tab=providers&edit=%2B");
  await page.getByRole("textbox", { name: "ID", exact: true }).fill(provider);
  await writeRecord(page, { adapter: "openai" });
  await expect(page.getByText("It compiles.")).toBeVisible();
  await saveInNewDraft(page);
  const { items } = await server.ask<{ items: { changes: { id: string }[] }[] }>("GET", "/v1/config/drafts");
  expect(items.flatMap((it) => it.changes.map((change) => change.id))).toContain(provider);
  await expect(server.ask("GET", `/v1/config/providers/${provider}`)).rejects.toThrow(/404/);
});

test("a breaker is opened and reset by keyboard alone", async ({ page, server }) => {
  await server.run("default", "Hello");
  await enter(page, server, "/models");
  const row = page.getByRole("row", { name: /^scripted/ });
  await expect(row).toContainText("closed");
  await expectAccessible(page);
  for (const [item, state] of [["Open: ask it no more", "open"], ["Reset: judge it anew", "closed"]] as const) {
    await row.getByRole("button", { name: "Breaker of scripted" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: item }).focus();
    await page.keyboard.press("Enter");
    // The dialog gives the focus to what it asks about.
    await expect(page.getByRole("dialog").locator(":focus")).toHaveCount(1);
    await page.getByRole("dialog").getByRole("button").last().focus();
    await page.keyboard.press("Enter");
    await expect(row).toContainText(state);
  }
});
