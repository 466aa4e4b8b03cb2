/** How many calls wait for a person, as far as a person wants to know it. */
import { queryOptions } from "@tanstack/react-query";

import { api, need } from "./client";
import type { Ticket } from "./decisionBody";

/** Nobody counts further; the number is then followed by a plus. */
const COUNTED = 99;
/** The server's pages leave out what workflows wait for, and so may be short or empty, and its total counts that too. */
const PAGES_MAX = 5;

/** An event or a deadline decides what a workflow waits for, not a person. */
export function isForPerson(ticket: Pick<Ticket, "asks">): boolean {
  return ticket.asks !== "event";
}

export const openTicketCountQuery = queryOptions({
  queryKey: ["ticket", "count"],
  queryFn: async ({ signal }) => {
    let count = 0;
    let oldest: number | null = null;
    let cursor: string | null | undefined;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const listed = await need(api.GET("/v1/tickets", { params: { query: { limit: COUNTED, cursor } }, signal }));
      const asked = listed.items.filter(isForPerson);
      count += asked.length;
      oldest ??= asked[0]?.created_at ?? null;
      if (!listed.has_more) return { count, isMore: false, oldest };
      if (count >= COUNTED) break;
      cursor = listed.next_cursor;
    }
    return { count, isMore: count > 0, oldest };
  },
});
