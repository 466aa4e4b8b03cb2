import type { Locator, Page } from "@playwright/test";

import { sentTo } from "./bodies";
import { enter, expect, expectAccessible, open, type Server, test, tabTo, visit } from "./fixtures";

type Ticket = { ticket_id: string; run_id: string; arguments_hash: string };
type Waiting = { run_id: string; thread_id: string; tickets: Ticket[] };

async function ask(server: Server, agent: string): Promise<Waiting> {
  return (await server.run(agent, "go")) as unknown as Waiting;
}

function ticketOf(run: Waiting): Ticket {
  const ticket = run.tickets[0];
  if (ticket === undefined) throw new Error("The run does not wait.");
  return ticket;
}

/** Opens the inbox with the card of a run's ticket, and only the tickets of those runs in the list. */
async function openCard(page: Page, server: Server, run: Waiting): Promise<Locator> {
  await enter(page, server, `/approvals?ticket=${ticketOf(run).ticket_id}&q=${run.thread_id}`);
  const card = page.locator("section");
  // For a second after the decision of the test before, keys and clicks decide nothing.
  await expect(card.getByRole("button", { name: "Deny" })).toBeEnabled();
  return card;
}

async function lastText(server: Server, run: Waiting): Promise<string> {
  await expect.poll(async () => (await server.ask<{ status: string }>("GET", `/v1/runs/${run.run_id}`)).status).toBe("done");
  return (await server.ask<{ final_output: string }>("GET", `/v1/runs/${run.run_id}`)).final_output;
}

test("a call is approved on what was shown", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  const card = await openCard(page, apps, run);
  await expect(card.getByRole("region", { name: "Arguments" })).toContainText('"path": "/tmp/old"');
  await expect(card).toContainText("the call runs with these arguments");
  await card.getByRole("button", { name: "Approve" }).click();
  await expect.poll(() => sentTo(page, "/decision")).toMatchObject({ action: "resume", arguments_hash: ticketOf(run).arguments_hash });
  expect(await lastText(apps, run)).toBe("It says: wiped /tmp/old");
});

test("the reason of a denial reaches the model, and the decision is listed with who made it", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  const card = await openCard(page, apps, run);
  await card.getByLabel("Reason").fill("We still need it.");
  await card.getByRole("button", { name: "Deny" }).click();
  expect(await lastText(apps, run)).toBe("It says: We still need it.");
  await visit(page, "/approvals?view=decided");
  const row = page.getByRole("row").filter({ hasText: "We still need it." });
  await expect(row).toContainText("denied");
  await expect(row).toContainText("local");
  await expectAccessible(page);
});

test("edited arguments show their difference, and are what the tool gets", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  const card = await openCard(page, apps, run);
  await card.getByRole("button", { name: "Edit arguments" }).click();
  // The tool's schema makes a form.
  await card.getByLabel("path").fill("/tmp/new");
  await expect(card.getByRole("region", { name: "What the edit changes" }).locator("ins")).toContainText("/tmp/new");
  await card.getByText("JSON", { exact: true }).click();
  await card.getByLabel("Edited arguments as JSON").fill('{"path": ');
  await expect(card.getByText("This is no JSON.")).toBeVisible();
  await expect(card.getByRole("button", { name: "Approve" })).toBeDisabled();
  // The server checks an edit again: against the tool, and against the rules.
  await card.getByLabel("Edited arguments as JSON").fill('{"path": 5}');
  await card.getByRole("button", { name: "Approve with the edit" }).click();
  await expect(card.getByRole("alert").filter({ hasText: "$.path" })).toBeVisible();
  await card.getByLabel("Edited arguments as JSON").fill('{"path": "/etc"}');
  await card.getByRole("button", { name: "Approve with the edit" }).click();
  await expect(card.getByRole("alert").filter({ hasText: 'the rule \'wipe(path = "/etc")\' denies' })).toBeVisible();
  await card.getByLabel("Edited arguments as JSON").fill('{"path": "/tmp/newer"}');
  await expectAccessible(page);
  await card.getByRole("button", { name: "Approve with the edit" }).click();
  expect(await lastText(apps, run)).toBe("It says: wiped /tmp/newer");
});

test("a question is answered by the form of its schema, and problems stand at their field", async ({ page, apps }) => {
  const run = await ask(apps, "hotel");
  const card = await openCard(page, apps, run);
  await expect(card).toContainText("Where do you want to stay?");
  await card.getByLabel("City").fill("Zürich");
  await card.getByRole("button", { name: "Send the answer" }).click();
  await expect(card.getByText("This is needed.")).toBeVisible();
  await card.getByLabel("Nights").fill("2");
  await card.getByLabel("Breakfast").check({ force: true });
  await expectAccessible(page);
  await card.getByRole("button", { name: "Send the answer" }).click();
  expect(await lastText(apps, run)).toContain("'city': 'Zürich', 'nights': 2, 'is_breakfast': True");
});

test("hostile arguments are shown whole, with nothing hidden, and do nothing", async ({ page, apps }) => {
  const run = await ask(apps, "mailer");
  const card = await openCard(page, apps, run);
  const shown = card.getByRole("region", { name: "Arguments" });
  await expect(shown).toContainText("invoice\\u202efdp.exe\\u200b");
  await expect(shown).toContainText("<script>alert(2)</script>");
  await expect(shown).toContainText("xTHE END");
  await expect(shown.locator("mark").filter({ hasText: "\u0430" })).toHaveAttribute("title", /another alphabet/);
  await expect(card).toContainText("1 letter comes from another alphabet");
  await expect(card.locator("img, script")).toHaveCount(0);
  await expectAccessible(page);
});

test("white space hides nothing: it is shown by its length, in the card and in the list", async ({ page, apps }) => {
  const run = await ask(apps, "spacer");
  const card = await openCard(page, apps, run);
  const shown = card.getByRole("region", { name: "Arguments" });
  await expect(shown).toContainText('"/tmp/old[5000 spaces]/etc"');
  await expect(shown).toContainText('"so[\\n × 900]and /home"');
  await expect(card).toContainText("1 long white space is shown by its length");
  await expect(page.locator(`[data-ticket="${ticketOf(run).ticket_id}"]`)).toContainText(" spaces]");
  await expect(card.getByRole("button", { name: "Approve" })).toBeEnabled();
  await expectAccessible(page);
});

test("a call is not approved before all of its arguments were on the screen, in every view, by mouse and by keyboard", async ({ page, apps }) => {
  const run = await ask(apps, "lengthy");
  const label = `Arguments: ${ticketOf(run).ticket_id}`;
  for (const path of [`/chat/${run.thread_id}`, `/runs/${run.run_id}`, `/approvals?ticket=${ticketOf(run).ticket_id}&q=${run.thread_id}`]) {
    if (path.startsWith("/chat")) await enter(page, apps, path);
    else await visit(page, path);
    const box = page.getByRole("region", { name: label });
    const approve = page.getByRole("button", { name: "Approve", exact: true });
    await expect(box).toContainText('"/etc"');
    await expect(approve).toBeDisabled();
    await expect(page.getByRole("button", { name: "Deny" })).toBeEnabled();
    // What was jumped over was not on the screen.
    await box.evaluate((it) => it.scrollTo(0, it.scrollHeight));
    await expect(box).toHaveJSProperty("scrollTop", await box.evaluate((it) => it.scrollHeight - it.clientHeight));
    await expect(page.getByText(/A yes waits until all arguments were on the screen/)).toBeVisible();
    await expect(approve).toBeDisabled();
  }
  await expectAccessible(page);
  // The key asks as well, and its question waits too.
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog");
  const approve = dialog.getByRole("button", { name: "Approve" });
  const next = dialog.getByRole("button", { name: "Show the next part" });
  await expect(next).toBeFocused();
  await expect(approve).toBeDisabled();
  await expect(page.locator(".mantine-Modal-content")).toHaveCSS("opacity", "1");
  await expectAccessible(page);
  for (let presses = 0; presses < 100 && (await next.count()) > 0; presses += 1) {
    await expect(approve).toBeDisabled();
    await page.keyboard.press("Enter");
  }
  await expect(next).toHaveCount(0);
  // Enter that goes on decides nothing: the text has the focus.
  await expect(dialog.getByRole("region", { name: /Arguments: wipe_all/ })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(approve).toBeEnabled();
  expect((await apps.ask<{ status: string }>("GET", `/v1/runs/${run.run_id}`)).status).toBe("waiting");
  await tabTo(page, approve);
  await page.keyboard.press("Enter");
  expect(await lastText(apps, run)).toBe("It says: wiped 401 paths");
});

test("what was read in the card by scrolling need not be read again", async ({ page, apps }) => {
  const run = await ask(apps, "lengthy");
  const card = await openCard(page, apps, run);
  const box = card.getByRole("region", { name: "Arguments" });
  const approve = card.getByRole("button", { name: "Approve" });
  await expect(approve).toBeDisabled();
  await box.focus();
  // A press while the box still moves is lost.
  await expect.poll(async () => { await page.keyboard.press("PageDown"); return approve.isEnabled(); }, { intervals: [50] }).toBe(true);
  await expect(approve).toBeEnabled();
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog");
  await expect(dialog.locator(":focus")).toHaveText("Approve");
  await page.keyboard.press("Enter");
  expect(await lastText(apps, run)).toBe("It says: wiped 401 paths");
});

test("on a small screen a button leads through all arguments, below the bar of the page", async ({ page, apps }) => {
  const run = await ask(apps, "lengthy");
  await page.setViewportSize({ width: 320, height: 640 });
  const card = await openCard(page, apps, run);
  const next = card.getByRole("button", { name: "Show the next part" });
  await next.focus();
  for (let presses = 0; presses < 100 && (await next.count()) > 0; presses += 1) await page.keyboard.press("Enter");
  await expect(card.getByRole("region", { name: "Arguments" })).toBeFocused();
  await expect(card.getByRole("button", { name: "Approve" })).toBeEnabled();
  await card.getByRole("button", { name: "Deny" }).click();
  await lastText(apps, run);
});

test("the keys keep what was chosen for how long an answer holds, for one and for several", async ({ page, apps }) => {
  const [first, second] = [await ask(apps, "cleaner"), await ask(apps, "cleaner")];
  const card = await openCard(page, apps, first);
  await card.getByRole("combobox", { name: "Remember for" }).click();
  await page.getByRole("option", { name: "This thread" }).click();
  await visit(page, "/approvals?group=agent");
  for (const it of [first, second]) await page.locator(`[data-ticket="${ticketOf(it).ticket_id}"]`).getByRole("checkbox").check();
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText("The answer is remembered for: This thread.")).toHaveCount(1);
  await dialog.getByRole("button", { name: "Approve" }).click();
  await expect.poll(() => sentTo(page, "/decision")).toMatchObject({ ticket_id: ticketOf(first).ticket_id, remember: { scope: "thread" } });
  for (const it of [first, second]) expect(await lastText(apps, it)).toBe("It says: wiped /tmp/old");
  const listed = await apps.ask<{ items: unknown[] }>("GET", `/v1/remembered-answers?thread_id=${first.thread_id}`);
  expect(listed.items).toHaveLength(1);
  expect((await apps.ask<{ items: unknown[] }>("GET", `/v1/remembered-answers?thread_id=${second.thread_id}`)).items).toHaveLength(0);
});

test("several are decided together by keyboard alone, each shown whole before", async ({ page, apps }) => {
  const runs = await Promise.all([1, 2].map(async () => ask(apps, "cleaner")));
  const question = await ask(apps, "hotel");
  await open(page, apps, "/approvals?group=tool");
  const boxes = [...runs, question].map((it) => page.locator(`[data-ticket="${ticketOf(it).ticket_id}"]`));
  await expect(boxes[0] as Locator).toBeVisible();
  // The keys walk the list; a ticket of another test may stand between.
  const total = await page.locator("[data-ticket]").count();
  for (let at = 0; at < total + 1; at += 1) {
    await page.keyboard.press("j");
    const current = page.locator("[data-current]");
    await expect(current).toHaveCount(1);
    const id = await current.getAttribute("data-ticket");
    if ([...runs, question].some((it) => ticketOf(it).ticket_id === id) && (await current.getAttribute("data-selected")) === null) await page.keyboard.press("x");
  }
  await expect(page.getByText("3 selected")).toBeVisible();
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("These 2 calls will run:");
  await expect(dialog).toContainText("1 question is left out");
  await expect(dialog.getByRole("region", { name: /Arguments: wipe/ })).toHaveCount(2);
  await expect(page.locator(".mantine-Modal-content")).toHaveCSS("opacity", "1");
  await expectAccessible(page);
  await expect(dialog.locator(":focus")).toHaveText(/Approve/);
  await page.keyboard.press("Enter");
  const hashes = Object.fromEntries(runs.map((it) => [ticketOf(it).ticket_id, ticketOf(it).arguments_hash]));
  await expect.poll(() => sentTo(page, "/v1/batch")).toMatchObject({ action: "decide", decision: { arguments_hashes: hashes } });
  for (const run of runs) expect(await lastText(apps, run)).toBe("It says: wiped /tmp/old");
  await expect(dialog).toHaveCount(0);
});

test("a denial by key asks once and takes a reason", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  await openCard(page, apps, run);
  await page.keyboard.press("d");
  await expect(page.getByRole("dialog")).toContainText("This call will not run:");
  await expect(page.getByRole("dialog").getByLabel("Reason")).toBeFocused();
  await page.keyboard.type("Not today.");
  await tabTo(page, page.getByRole("dialog").getByRole("button", { name: /^Deny/ }));
  await page.keyboard.press("Enter");
  expect(await lastText(apps, run)).toBe("It says: Not today.");
});

test("an answer is remembered for the thread, and taken back", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  const card = await openCard(page, apps, run);
  await card.getByRole("combobox", { name: "Remember for" }).click();
  await page.getByRole("option", { name: "This thread" }).click();
  await card.getByRole("button", { name: "Approve" }).click();
  await lastText(apps, run);
  await visit(page, `/approvals?view=remembered&thread=${run.thread_id}`);
  await expectAccessible(page);
  await page.getByRole("row").filter({ hasText: "wipe" }).getByRole("button", { name: "Take back" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Take back" }).click();
  await expect(page.getByText("Nothing is remembered")).toBeVisible();
});

test("a ticket that another person decided is no longer offered", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  const card = await openCard(page, apps, run);
  await expect(card.getByRole("button", { name: "Approve" })).toBeVisible();
  await apps.ask("POST", `/v1/runs/${run.run_id}/decision`, { action: "cancel", ticket_id: ticketOf(run).ticket_id });
  await expect(page.getByText("This ticket is no longer open.")).toBeVisible();
});

test("the inbox is accessible with tickets", async ({ page, apps }) => {
  const run = await ask(apps, "cleaner");
  await openCard(page, apps, run);
  await expect(page.getByText("The conversation so far")).toBeVisible();
  await expectAccessible(page);
  await page.setViewportSize({ width: 320, height: 640 });
  await expect(page.getByRole("button", { name: "Back to the list" })).toBeVisible();
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
});

test("digits are shown and sent as they are; an edit outlives other tickets and the keys; a dialog has the keys for itself", async ({ page, apps }) => {
  const [run, other] = [await ask(apps, "payer"), await ask(apps, "cleaner")];
  await enter(page, apps, "/approvals?group=agent");
  const item = (it: Waiting) => page.locator(`[data-ticket="${ticketOf(it).ticket_id}"]`);
  await item(run).getByRole("button").click();
  const shown = page.locator("section").getByRole("region", { name: "Arguments" });
  await expect(shown).toContainText('"account": 12345678901234567890');
  await expect(shown).toContainText('"amount": 1.0');
  await page.keyboard.press("e");
  await page.getByText("JSON", { exact: true }).click();
  const field = page.getByLabel("Edited arguments as JSON");
  await expect(field).toHaveValue(/"account": 12345678901234567890,\s+"amount": 1\.0/);
  await field.fill((await field.inputValue()).replace('"note": null', '"note": "rent"'));
  await page.getByLabel("Reason").fill("It is due.");
  await item(other).getByRole("button").click();
  await expect(page.locator("section").getByRole("heading", { level: 2 })).toHaveText("wipe");
  await item(run).getByRole("button").click();
  await expect(field).toHaveValue(/"rent"/);
  // A box that was ticked leaves the keys to the page.
  const box = item(run).getByRole("checkbox");
  await box.check();
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("with your edit");
  await expect(dialog.getByRole("region", { name: /Arguments: pay/ })).toContainText('"note": "rent"');
  await expect(dialog.getByLabel("Reason")).toHaveValue("It is due.");
  const address = page.url();
  await page.keyboard.press("Tab");
  for (const key of ["d", "j", "g", "r"]) await page.keyboard.press(key);
  await expect(dialog).toContainText("Approve this call?");
  expect(page.url()).toBe(address);
  await dialog.getByRole("button", { name: "Approve" }).click();
  expect(await lastText(apps, run)).toBe("It says: paid 12345678901234567890 1.0 'rent'");
  // The next card comes by itself; it must be there before the page is left, or it would come afterwards.
  await expect(page).not.toHaveURL(address);
  // Going back from a ticket leads to the list.
  await visit(page, "/approvals");
  await expect(page.getByText("Choose a ticket on the left.")).toBeVisible();
  await item(other).getByRole("button").click();
  await expect(page).toHaveURL(/ticket=/);
  await page.goBack();
  // The way of grouping that an earlier visit chose stays in the address.
  await expect(page).not.toHaveURL(/ticket=/);
  await apps.ask("POST", `/v1/runs/${other.run_id}/decision`, { action: "cancel", ticket_id: ticketOf(other).ticket_id });
});

test("the second click of a double click decides nothing, and the next card has the focus", async ({ page, apps }) => {
  const runs = [await ask(apps, "cleaner"), await ask(apps, "cleaner")] as const;
  await enter(page, apps, `/approvals?ticket=${ticketOf(runs[0]).ticket_id}&agent=cleaner`);
  const approve = page.getByRole("button", { name: "Approve", exact: true });
  await expect(approve).toBeEnabled();
  const place = await approve.boundingBox();
  if (place === null) throw new Error("There is no button.");
  const [x, y] = [place.x + place.width / 2, place.y + place.height / 2];
  await page.mouse.click(x, y);
  await expect(page).toHaveURL(new RegExp(ticketOf(runs[1]).ticket_id));
  await page.mouse.click(x, y);
  await expect(page.locator("section:focus")).toHaveAttribute("aria-label", "wipe");
  await expect(approve).toBeEnabled();
  expect((await apps.ask<{ status: string }>("GET", `/v1/runs/${runs[1].run_id}`)).status).toBe("waiting");
  await approve.click();
  expect(await lastText(apps, runs[1])).toBe("It says: wiped /tmp/old");
});

test("every view of a ticket shows it whole, marked and without a freeze; a hostile form is a form", async ({ page, apps }) => {
  const [mail, hidden, odd] = [await ask(apps, "mailer"), await ask(apps, "hider"), await ask(apps, "chooser")];
  await open(page, apps, "/settings");
  for (const path of [`/runs/${mail.run_id}`, `/chat/${mail.thread_id}`]) {
    await visit(page, path);
    const shown = page.getByRole("region", { name: `Arguments: ${ticketOf(mail).ticket_id}` });
    await expect(shown).toContainText("invoice\\u202efdp.exe\\u200b");
    await expect(shown).toContainText("xTHE END");
    await expect(shown.locator("mark").filter({ hasText: "\u0430" })).toHaveCount(1);
  }
  await visit(page, `/approvals?ticket=${ticketOf(hidden).ticket_id}&q=${hidden.thread_id}`);
  await expect(page.locator("section").getByText("100000 hidden characters are shown as escapes")).toBeVisible();
  expect(await page.locator("section mark").count()).toBeLessThan(2_000);
  await visit(page, `/chat/${odd.thread_id}`);
  await page.getByLabel("City").fill("Bern");
  await page.getByLabel("Odd").fill("yes");
  await page.getByRole("button", { name: "Send the answer" }).click();
  expect(await lastText(apps, odd)).toContain("'city': 'Bern', '__proto__': 'yes'");
});
