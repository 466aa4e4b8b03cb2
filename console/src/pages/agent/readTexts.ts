/** Reads a list of texts of a record; anything else in it is left out. Pure. */
import type { Json } from "../../ui/schema/model";

export function readTexts(value: Json | undefined): string[] {
  return Array.isArray(value) ? (value as Json[]).filter((it) => typeof it === "string") : [];
}
