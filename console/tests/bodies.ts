/** The bodies that a page sends: a body of a `Request` object is not visible to the browser's protocol. */
import type { Page } from "@playwright/test";

type Sent = { method: string; path: string; body: unknown };

/** Records what the page sends from its next load on; the answer finds the last body that was sent to a path. */
export async function recordBodies(page: Page): Promise<(pathEnd: string) => Promise<unknown>> {
  await page.addInitScript(() => {
    const sent: Sent[] = [];
    const original = window.fetch;
    Object.assign(window, { sentBodies: sent });
    window.fetch = async (input, init) => {
      if (input instanceof Request && input.method !== "GET") {
        const text = await input.clone().text();
        sent.push({ method: input.method, path: new URL(input.url).pathname, body: text === "" ? null : JSON.parse(text) });
      }
      return original(input, init);
    };
  });
  return (pathEnd) => page.evaluate((end) => (window as unknown as { sentBodies: Sent[] }).sentBodies.findLast((it) => it.path.endsWith(end))?.body ?? null, pathEnd);
}
