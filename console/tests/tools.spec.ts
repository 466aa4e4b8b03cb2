import { enter, expect, expectAccessible, open, test } from "./fixtures";

test("tools are listed with what they did, accessible", async ({ page, server }) => {
  await server.run("default", "RUN_WEATHER_TOOL").catch(() => undefined);
  await open(page, server, "/tools?q=weather");
  const row = page.getByRole("row", { name: /get_weather/ });
  await expect(row).toContainText("Code");
  await expectAccessible(page);
  await row.getByRole("link").click();
  await expect(page.getByRole("dialog").getByText("location").first()).toBeVisible();
  await expect(page.getByRole("dialog").getByRole("link", { name: "default" })).toBeVisible();
  await expectAccessible(page);
});

test("a description is overridden and taken back", async ({ page, server }) => {
  await enter(page, server, "/tools?tool=append_note");
  const field = page.getByRole("textbox", { name: /Description for the model/ });
  await field.fill("Keeps a note, in the words of an operator.");
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("button", { name: "Publish now" }).click();
  await expect(page.getByRole("button", { name: "Back to the code’s" })).toBeVisible();
  await expect.poll(async () => (await server.ask<{ description: string }>("GET", "/v1/config/tools/append_note")).description).toContain("of an operator");
  await page.getByRole("button", { name: "Back to the code’s" }).click();
  await expect(field).toHaveValue(/Keep a note for later/);
});

test("a description that is being typed survives what a colleague publishes, which is read first", async ({ page, server }) => {
  await enter(page, server, "/tools?tool=get_weather");
  const field = page.getByRole("textbox", { name: /Description for the model/ });
  await field.fill("Mine.");
  await server.ask("PATCH", "/v1/config/tools/get_weather/overrides", { description: "Theirs." }, { "If-Match": "*" });
  await expect(page.getByRole("dialog").getByRole("status").filter({ hasText: "Theirs." })).toBeVisible();
  await expect(field).toHaveValue("Mine.");
  await expect(page.getByRole("button", { name: "Publish…" })).toHaveAttribute("aria-disabled", "true");
  await page.getByRole("button", { name: "Keep mine" }).click();
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByRole("button", { name: "Publish now" }).click();
  await expect.poll(async () => (await server.ask<{ description: string }>("GET", "/v1/config/tools/get_weather")).description).toBe("Mine.");
  await page.getByRole("button", { name: "Back to the code’s" }).click();
  await expect(field).not.toHaveValue("Mine.");
  await expect(page.getByRole("dialog").getByText("Another person changed")).toHaveCount(0);
});

test("a tool is switched off with a reason by keyboard, and on again", async ({ page, server }) => {
  await enter(page, server, "/tools?tool=failingTool");
  await page.getByRole("button", { name: "Switch off…" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("textbox", { name: "Reason" })).toBeFocused();
  await page.keyboard.type("It fails, always");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog").getByText("switched off", { exact: true })).toBeVisible();
  const { items } = await server.ask<{ items: { id: string; reason: string }[] }>("GET", "/v1/config/switches");
  expect(items).toMatchObject([{ id: "failingTool", reason: "It fails, always" }]);
  await page.getByRole("button", { name: "Switch on" }).click();
  await expect(page.getByRole("button", { name: "Switch off…" })).toBeVisible();
});
