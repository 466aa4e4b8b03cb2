/** JSON Patch (RFC 6902) over values that are never changed in place. Operations that do not fit are skipped: the snapshot at the end is whole. */
import type { PatchOperation } from "../types";

type Container = Record<string, unknown> | unknown[];

const isContainer = (value: unknown): value is Container => typeof value === "object" && value !== null;

export function readPointer(path: string): string[] {
  return path === "" || path === "/" ? [] : path.replace(/^\//, "").split("/").map((it) => it.replaceAll("~1", "/").replaceAll("~0", "~"));
}

export function getAt(value: unknown, path: readonly string[]): unknown {
  let found = value;
  for (const name of path) {
    if (!isContainer(found) || !Object.hasOwn(found, name)) return undefined;
    found = (found as Record<string, unknown>)[name];
  }
  return found;
}

type Edit = (holder: Container, name: string) => void;

function editAt(value: unknown, path: readonly string[], edit: Edit): unknown {
  const [name, ...rest] = path;
  if (name === undefined || !isContainer(value) || name === "__proto__") return value;
  const copy: Container = Array.isArray(value) ? [...value] : { ...value };
  if (rest.length === 0) edit(copy, name);
  else (copy as Record<string, unknown>)[name] = editAt((copy as Record<string, unknown>)[name], rest, edit);
  return copy;
}

export function setAt(value: unknown, path: readonly string[], given: unknown): unknown {
  if (path.length === 0) return given;
  return editAt(value, path, (holder, name) => {
    if (Array.isArray(holder)) holder[name === "-" ? holder.length : Number(name)] = given;
    else holder[name] = given;
  });
}

function insertAt(value: unknown, path: readonly string[], given: unknown): unknown {
  if (path.length === 0) return given;
  return editAt(value, path, (holder, name) => {
    if (!Array.isArray(holder)) holder[name] = given;
    else if (name === "-") holder.push(given);
    else if (Number.isInteger(Number(name))) holder.splice(Number(name), 0, given);
  });
}

function removeAt(value: unknown, path: readonly string[]): unknown {
  return editAt(value, path, (holder, name) => {
    if (Array.isArray(holder)) holder.splice(Number(name), 1);
    else delete holder[name];
  });
}

export function applyPatch(value: unknown, patch: readonly PatchOperation[]): unknown {
  let now: unknown = value ?? {};
  for (const { op, path, value: given, from } of patch) {
    const place = readPointer(path);
    if (op === "add") now = insertAt(now, place, given);
    else if (op === "replace") now = setAt(now, place, given);
    else if (op === "remove") now = removeAt(now, place);
    else if (op === "copy" || op === "move") {
      const source = readPointer(from ?? "");
      const moved = getAt(now, source);
      if (op === "move") now = removeAt(now, source);
      now = insertAt(now, place, moved);
    }
  }
  return now;
}
