import { PAGES } from "./pages";
import { expect, expectAccessible, open, test } from "./fixtures";

test("the root of the server leads to the console", async ({ page, server }) => {
  await page.goto(server.url);
  await expect(page).toHaveURL(`${server.url}/console/`);
  await expect(page.locator("h1")).toHaveText("Home");
});

for (const path of PAGES) {
  test(`${path} is accessible without data, light and dark`, async ({ page, server }) => {
    await open(page, server, path);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", colorScheme);
      await expectAccessible(page);
    }
  });
}

test("keys lead to pages, and the palette finds an agent", async ({ page, server }) => {
  await open(page, server, "/");
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await expect(page.locator("h1")).toHaveText("Runs");
  await page.keyboard.press("Control+k");
  await page.getByPlaceholder("Search…").fill("travel");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/agents\/travel/);
});

test("no page is wider than a small screen", async ({ page, server }) => {
  await page.setViewportSize({ width: 320, height: 640 });
  for (const path of PAGES) {
    await open(page, server, path);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(width, path).toBeLessThanOrEqual(320);
  }
});

test("a tab that is older than the server's console offers the new version", async ({ page, server }) => {
  await open(page, server, "/runs");
  // The parts that this tab would load next went with the build before.
  await page.route("**/assets/*.js", (route) => route.fulfill({ status: 404, body: "{}" }));
  await page.evaluate(() => sessionStorage.clear());
  await page.evaluate(() => window.dispatchEvent(new Event("vite:preloadError")));
  const notice = page.getByRole("alert").filter({ hasText: "A newer version of the console is here" });
  await expect(notice).toBeVisible();
  await expectAccessible(page);
  await page.unroute("**/assets/*.js");
  await notice.getByRole("button", { name: "Reload" }).click();
  await expect(page.locator("h1")).toHaveText("Runs");
  await expect(notice).toHaveCount(0);
});
