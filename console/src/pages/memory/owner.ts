/** Whose facts the page shows, as routes and people name it. Pure. */
import { memory as texts } from "../../texts/memory";

export type Owner = { kind: "mine" } | { kind: "project" | "user"; name: string };

/** A name that is still empty is a project or a user that a person has yet to name. */
export function readOwner({ whose, name = "" }: { whose?: string; name?: string }): Owner {
  return whose === "project" || whose === "user" ? { kind: whose, name } : { kind: "mine" };
}

export function ownerQuery(owner: Owner): { project?: string; user_id?: string } {
  if (owner.kind === "mine") return {};
  return owner.kind === "project" ? { project: owner.name } : { user_id: owner.name };
}

export function nameOwner(owner: Owner): string {
  return owner.kind === "mine" ? texts.me : owner.name;
}

const DAY_MS = 86_400_000;

/** For how long a fact holds, from a number of days as typed; null: for ever. */
export function readDays(days: number | string): number | null {
  const count = typeof days === "number" ? days : Number.parseFloat(days);
  return Number.isFinite(count) && count > 0 ? Math.round(count * DAY_MS) : null;
}

/** The format of a file by the end of its name. */
export function guessFormat(name: string): "text" | "markdown" | "pdf" {
  if (/\.pdf$/i.test(name)) return "pdf";
  return /\.(md|markdown|mdx)$/i.test(name) ? "markdown" : "text";
}

/** Bytes in base64, in slices that a call can take. */
export function encodeBytes(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  return btoa(parts.join(""));
}
