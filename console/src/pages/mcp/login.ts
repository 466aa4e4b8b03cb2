/** A login to an MCP server: this tab leaves for the authorization server's page and comes back to `/mcp-login`. */
import { api, need } from "../../api/client";

const KEY = "awaken.mcp-login";
export type BegunLogin = { server: string; state: string };

/** Begins a login and leaves this page. The tab notes which login it began: the reply to another one is worth nothing to it. */
export async function beginLogin(server: string, leave: (address: string) => void = (it) => location.assign(it)): Promise<void> {
  const { address } = await need(api.POST("/v1/mcp-servers/{server_id}/login", { params: { path: { server_id: server } } }));
  const url = new URL(address);
  // Nothing but a page: an address that would execute something is not opened.
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new Error(`The address ${url.protocol} cannot be opened.`);
  sessionStorage.setItem(KEY, JSON.stringify({ server, state: url.searchParams.get("state") ?? "" } satisfies BegunLogin));
  leave(url.href);
}

/** The login that this tab began, once: a page that is loaded again does not send a reply twice. */
export function takeBegun(): BegunLogin | null {
  const text = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (text === null) return null;
  const begun = JSON.parse(text) as Partial<BegunLogin>;
  return typeof begun.server === "string" && typeof begun.state === "string" && begun.state !== "" ? { server: begun.server, state: begun.state } : null;
}
