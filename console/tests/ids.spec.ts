import { expect, open, test, visit } from "./fixtures";

/** A part of the corpus of `tests/server/test_ids_in_paths.py`, in a browser: what encodes and decodes here are the console's router and client. */
const IDS = ["x/messages", "%2F", "a?b=c#d", "../日本"] as const;

for (const id of IDS) {
  test(`the thread ${id} and its run are opened, followed and written to`, async ({ page, server }) => {
    const { run_id: runId } = await server.run("default", `Hello from ${id}`, id);
    await open(page, server, `/threads/${encodeURIComponent(id)}`);
    await expect(page.getByText(`Scripted response to: Hello from ${id}`)).toBeVisible();
    await page.getByRole("link", { name: "Run of default" }).click();
    await expect(page).toHaveURL(new RegExp(runId));
    await expect(page.getByRole("status").filter({ hasText: "The model answered" })).toBeVisible();
    await visit(page, `/chat/${encodeURIComponent(id)}?agent=default`);
    await expect(page.locator('[data-turn="user"]')).toHaveCount(1);
    await page.getByRole("textbox", { name: "Message" }).fill("Once more");
    await page.getByRole("textbox", { name: "Message" }).press("Enter");
    await expect(page.locator('[data-turn="assistant"]').last()).toContainText("Scripted response to: Once more");
    await expect(page.locator("[data-link]")).toHaveAttribute("data-link", "live");
  });
}

test("an id that no address can have is refused, with a reason", async ({ server }) => {
  for (const id of [".", "..", "search"]) await expect(server.run("default", "Hello", id)).rejects.toThrow(/400.*choose another id/);
});
