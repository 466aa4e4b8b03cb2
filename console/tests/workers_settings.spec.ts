import { expect, expectAccessible, open, test } from "./fixtures";

test("the process that serves is listed, with its store and its health", async ({ page, server }) => {
  await open(page, server, "/workers");
  const row = page.getByRole("row").nth(1);
  await expect(row).toContainText("0 / 64");
  await expect(page.getByText("sqlite", { exact: true }).first()).toBeVisible();
  await expect(page.getByRole("region", { name: "Health of this process" })).toContainText("healthy");
  await expectAccessible(page);
  await page.locator("h1").click();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog")).toContainText('"loop_lag_ms"');
});

test("settings show who calls, and change the look of this browser", async ({ page, server }) => {
  await open(page, server, "/settings");
  await expect(page.getByRole("region", { name: "Who am I" })).toContainText("local");
  await page.getByText("Dark", { exact: true }).click();
  await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", "dark");
  await page.getByText("Comfortable", { exact: true }).click();
  await page.getByRole("combobox", { name: "Time zone" }).click();
  await page.getByRole("combobox", { name: "Time zone" }).fill("Asia/Tokyo");
  await page.getByRole("option", { name: "Asia/Tokyo" }).click();
  await page.reload();
  await expect(page.getByRole("combobox", { name: "Time zone" })).toHaveValue("Asia/Tokyo");
  await expect(page.getByRole("radio", { name: "Comfortable" })).toBeChecked();
  await expect(page.getByRole("link", { name: "OpenAPI document" })).toHaveAttribute("href", "/openapi.json");
  await page.getByText("Like the system", { exact: true }).click();
  await expectAccessible(page);
});
