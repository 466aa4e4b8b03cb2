/** The bodies that a page sends: a body of a `Request` object is not visible to the browser's protocol. */
import type { BrowserContext, Page } from "@playwright/test";

/** `answeredAt` is on the page's own clock; undefined while there is no answer. */
export type Sent = { method: string; path: string; body: unknown; answeredAt?: number };

/** Makes every page of a window keep what it sends. */
export async function recordBodies(context: BrowserContext): Promise<void> {
  await context.addInitScript(() => {
    const sent: Sent[] = [];
    const original = window.fetch;
    Object.assign(window, { sentBodies: sent });
    window.fetch = async (input, init) => {
      if (!(input instanceof Request) || input.method === "GET") return original(input, init);
      const text = await input.clone().text();
      let body: unknown = null;
      try { body = JSON.parse(text); } catch { body = text === "" ? null : text; }
      const entry: Sent = { method: input.method, path: new URL(input.url).pathname, body };
      sent.push(entry);
      try {
        return await original(input, init);
      } finally {
        entry.answeredAt = performance.now();
      }
    };
  });
}

/** The last body that this document of the page sent to a path. */
export function sentTo(page: Page, pathEnd: string): Promise<unknown> {
  return page.evaluate((end) => (window as unknown as { sentBodies: Sent[] }).sentBodies.findLast((it) => it.path.endsWith(end))?.body ?? null, pathEnd);
}
