import { expect, open, Server, test, visit } from "./fixtures";
import { PAGES } from "./pages";

const PREFIX = "/my/agents";

test("an app that mounts the server under a prefix has every page of the console, and asks for nothing beside the prefix", async ({ page }) => {
  test.setTimeout(240_000);
  const server = await Server.startMounted(PREFIX);
  const beside: string[] = [];
  page.on("request", (request) => { if (request.url().startsWith("http") && !new URL(request.url()).pathname.startsWith(`${PREFIX}/`)) beside.push(request.url()); });
  const refused: string[] = [];
  page.on("response", (response) => { // The app has no managed configuration, which is a 400; what is not found or fails is a fault of the mount.
  if (response.status() === 404 || response.status() >= 500) refused.push(`${response.status()} ${response.url()}`); });
  try {
    await open(page, server, "/chat");
    await page.getByRole("textbox", { name: "Message" }).fill("Hello");
    await page.keyboard.press("Enter");
    await expect(page.locator('[data-turn="assistant"]').filter({ hasText: "The mounted server answers." })).toBeVisible();
    await expect(page).toHaveURL(new RegExp(`${PREFIX}/console/chat/.+`));
    for (const path of PAGES) {
      await test.step(path, async () => {
        await visit(page, path);
        await expect(page.locator("h1")).toBeVisible();
        await expect(page.getByText("There is no such page")).toHaveCount(0);
      });
    }
    // Links of the rail and of a list stay under the prefix, and an address that was copied opens.
    await page.getByRole("navigation").getByRole("link", { name: "Runs", exact: true }).click();
    await page.getByRole("row").nth(1).getByRole("link").first().click();
    await expect(page).toHaveURL(new RegExp(`${PREFIX}/console/runs/.+`));
    await page.reload();
    await expect(page.locator("h1")).toContainText("Run");
    await page.goto(`${server.url}/`);
    await expect(page.locator("h1")).toHaveText("Home");
    expect(beside).toEqual([]);
    expect(refused).toEqual([]);
  } finally {
    await server.close();
  }
});
