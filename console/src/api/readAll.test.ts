import { expect, test } from "vitest";

import { PAGE, readAll, readAllBefore } from "./readAll";

test("a list is read to its end, also where that is the end of a page", async () => {
  for (const count of [0, 1, PAGE, PAGE + 1, 2 * PAGE]) {
    const stored = Array.from({ length: count }, (_, at) => ({ no: count - at }));
    const page = async ({ limit, offset }: { limit: number; offset: number }) => ({ items: stored.slice(offset, offset + limit) });
    expect(await readAll(page)).toEqual(stored);
    const before = async ({ limit, before: end = count + 1 }: { limit: number; before?: number }) => stored.filter((it) => it.no < end).slice(0, limit);
    expect(await readAllBefore(before)).toEqual(stored);
  }
});
