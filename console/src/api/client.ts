/** The typed client of this server's API: every request has the token, every write a key that makes it safe to repeat. */
import createClient from "openapi-fetch";

import { root } from "./address";
import { learnTime } from "./clock";
import { noteReachable } from "./connection";
import { NetworkError, readRefusal } from "./errors";
import { parseExact, writeExact } from "./exactJson";
import type { components, paths } from "./schema";
import { askForToken, currentToken, readLoginUrl } from "./token";

export type Schemas = components["schemas"];
/** A value of which the server writes every field, though its type has defaults for them. */
export type Whole<T> = T extends readonly (infer Item)[] ? Whole<Item>[] : T extends object ? { [Name in keyof T]-?: Whole<T[Name]> } : T;

/** Makes an id that no other one equals; `crypto.randomUUID` exists on secure origins only. */
export function makeId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (it) => it.toString(16).padStart(2, "0")).join("");
}

/** Sends a request with the token; after a 401 it asks for one and sends the request again. */
export async function send(request: Request): Promise<Response> {
  for (;;) {
    const attempt = request.clone();
    const token = currentToken();
    if (token !== null) attempt.headers.set("Authorization", `Bearer ${token}`);
    if (attempt.method !== "GET" && !attempt.headers.has("Idempotency-Key")) attempt.headers.set("Idempotency-Key", makeId());
    let response: Response;
    const asked = Date.now();
    try {
      response = await fetch(attempt);
    } catch (error) {
      if (request.signal.aborted) throw error;
      noteReachable(false);
      throw new NetworkError(error);
    }
    noteReachable(true);
    learnTime(response.headers.get("Date"), asked);
    if (response.status !== 401) return response;
    if ((await askForToken(await readLoginUrl(response), token !== null)) === null) return response;
  }
}

/** Sends a request whose reply is read without rounding its numbers; the library would read it with `JSON.parse`. */
async function sendExact(request: Request): Promise<Response> {
  const response = await send(request);
  if (!response.ok || response.headers.get("Content-Type")?.includes("json") !== true) return response;
  const text = await response.text();
  const headers = new Headers(response.headers);
  headers.set("Content-Length", String(text.length));
  const read = async () => (text === "" ? undefined : parseExact(text));
  return Object.defineProperty(new Response(null, { status: response.status, headers }), "json", { value: read });
}

export const api = createClient<paths>({ baseUrl: root || "/", fetch: sendExact, bodySerializer: (body) => writeExact(body) });

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The body of a successful answer; a refusal is thrown as `ApiError`. */
export async function need<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (response.ok) return data as T;
  throw await readRefusal(new Response(JSON.stringify(error ?? null), { status: response.status, headers: response.headers }));
}
