import { expect, open, Server, test } from "./fixtures";

type Request = { request: { system: unknown } };

/** Runs an agent in a process, and tells with which publication and instructions it asked its model. */
async function runIn(server: Server, agent: string): Promise<{ publication: number | undefined; system: string }> {
  const { run_id: runId } = await server.run(agent, "Hello");
  const { publication } = await server.ask<{ publication?: number }>("GET", `/v1/runs/${runId}`);
  const { request } = await server.ask<Request>("GET", `/v1/runs/${runId}/steps/1/request`);
  return { publication, system: JSON.stringify(request.system) };
}

test("what is edited, tried and published in the console of one process runs in another", async ({ page }) => {
  const first = await Server.start();
  const second = await Server.startBeside(first);
  try {
    await first.ask("PUT", "/v1/config/agents/traveller", { model_id: "scripted", system_prompt: "Old prompt." });
    await expect.poll(async () => runIn(second, "traveller").then((it) => it.system, () => "")).toContain("Old prompt.");

    const draft = await first.ask<{ id: string }>("POST", "/v1/config/drafts", { title: "Travel" });
    await open(page, first, `/agents/traveller?draft=${draft.id}&tab=prompt`);
    await page.getByRole("textbox", { name: "System prompt" }).fill("You know every train.");
    await expect(page.getByText(/^Saved in draft/)).toBeVisible();
    await page.getByRole("textbox", { name: "Message to the draft" }).fill("Hello there");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("link", { name: "Open the run" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Send" })).toBeVisible();
    // A preview changes nothing for others.
    expect((await runIn(second, "traveller")).system).toContain("Old prompt.");

    await page.getByRole("button", { name: "Publish…" }).click();
    await page.getByRole("textbox", { name: "Message", exact: true }).fill("Trains");
    await page.getByRole("button", { name: "Publish now" }).click();
    await expect(page.getByText(/Publication \d+ is live/)).toBeVisible();
    const { publication: live } = await first.ask<{ publication: number }>("GET", "/v1/config/head");
    await expect.poll(async () => (await runIn(second, "traveller")).publication).toBe(live);
    expect((await runIn(second, "traveller")).system).toContain("You know every train.");

    await open(page, second, "/agents/traveller?tab=prompt");
    await expect(page.getByRole("textbox", { name: "System prompt" })).toHaveText("You know every train.");
  } finally {
    await second.kill();
    await first.close();
  }
});
