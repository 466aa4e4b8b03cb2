/** Requests to routes whose replies the OpenAPI document leaves open: those of the configuration. The caller names the reply's type. */
import { root } from "./address";
import { send } from "./client";
import { readRefusal } from "./errors";

type Options = { body?: unknown; query?: Readonly<Record<string, string | number | boolean | undefined>>; headers?: Readonly<Record<string, string>>; signal?: AbortSignal };

function writeQuery(query: Options["query"]): string {
  const given = Object.entries(query ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`;
}

/** Sends a request and returns the body of the reply; a refusal is thrown as `ApiError`. An empty reply is `null`. */
export async function ask<T>(method: string, path: string, { body, query, headers, signal }: Options = {}): Promise<T> {
  const request = new Request(`${location.origin}${root}${path}${writeQuery(query)}`, {
    method,
    headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  const response = await send(request);
  if (!response.ok) throw await readRefusal(response);
  const text = await response.text();
  return (text === "" ? null : JSON.parse(text)) as T;
}
