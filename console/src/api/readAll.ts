/** All of a list that the server gives in pages: a choice that ends somewhere hides what stands behind it. Pure. */

/** As many as the server lists at once. */
export const PAGE = 1_000;

export async function readAll<T>(fetchPage: (query: { limit: number; offset: number }) => Promise<{ items: readonly T[] }>): Promise<T[]> {
  for (let found: T[] = []; ;) {
    const { items } = await fetchPage({ limit: PAGE, offset: found.length });
    found = [...found, ...items];
    if (items.length < PAGE) return found;
  }
}

/** The same of a list whose pages begin before a number, newest first. */
export async function readAllBefore<T extends { readonly no: number }>(fetchPage: (query: { limit: number; before?: number }) => Promise<readonly T[]>): Promise<T[]> {
  for (let found: T[] = []; ;) {
    const items = await fetchPage({ limit: PAGE, before: found.at(-1)?.no });
    found = [...found, ...items];
    if (items.length < PAGE) return found;
  }
}
