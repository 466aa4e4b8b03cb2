/** Surfaces of A2UI (v0.8, v0.9, v1.0) in one form, from the messages of `render_a2ui` calls. Pure. */
import { getAt, readPointer, setAt } from "./patch";

export type Component = { id: string; type: string; props: Readonly<Record<string, unknown>> };
export type Surface = { id: string; root: string | null; components: Readonly<Record<string, Component>>; data: unknown };
export type Surfaces = Readonly<Record<string, Surface>>;
type Fields = Record<string, unknown>;

export const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** v0.8 nests the properties below the type's name, later versions name the type beside them. */
export function readComponent(given: unknown): Component | null {
  if (!isFields(given) || typeof given.id !== "string") return null;
  const { id, component, ...rest } = given;
  if (typeof component === "string") return { id, type: component, props: rest };
  if (!isFields(component)) return null;
  const [type] = Object.keys(component);
  const props = type === undefined ? undefined : component[type];
  return type === undefined ? null : { id, type, props: isFields(props) ? props : {} };
}

function readEntries(contents: unknown): Fields {
  const data: Fields = {};
  for (const entry of Array.isArray(contents) ? contents : []) {
    if (!isFields(entry) || typeof entry.key !== "string" || entry.key === "__proto__") continue;
    data[entry.key] = "valueMap" in entry ? readEntries(entry.valueMap) : (entry.valueString ?? entry.valueNumber ?? entry.valueBoolean);
  }
  return data;
}

function makeSurface(id: string): Surface {
  return { id, root: null, components: {}, data: {} };
}

function addComponents(surface: Surface, given: unknown): Surface {
  const components = { ...surface.components };
  for (const it of Array.isArray(given) ? given : []) {
    const component = readComponent(it);
    if (component !== null && component.id !== "__proto__") components[component.id] = component;
  }
  return { ...surface, components };
}

function addData(surface: Surface, path: unknown, value: unknown): Surface {
  const place = readPointer(typeof path === "string" ? path : "");
  const merged = place.length === 0 && isFields(value) && isFields(surface.data) ? { ...surface.data, ...value } : setAt(surface.data, place, value);
  return { ...surface, data: merged };
}

function applyMessage(surfaces: Surfaces, name: string, body: Fields): Surfaces {
  const id = typeof body.surfaceId === "string" ? body.surfaceId : "";
  const now = surfaces[id] ?? makeSurface(id);
  switch (name) {
    case "beginRendering":
      return { ...surfaces, [id]: { ...now, root: typeof body.root === "string" ? body.root : null } };
    case "createSurface":
      return { ...surfaces, [id]: { ...addComponents({ ...makeSurface(id), root: "root" }, body.components), data: body.dataModel ?? {} } };
    case "surfaceUpdate":
    case "updateComponents":
      return { ...surfaces, [id]: addComponents(now, body.components) };
    case "dataModelUpdate":
      return { ...surfaces, [id]: addData(now, body.path, readEntries(body.contents)) };
    case "updateDataModel":
      return { ...surfaces, [id]: addData(now, body.path, body.value) };
    case "deleteSurface":
      return Object.fromEntries(Object.entries(surfaces).filter(([key]) => key !== id));
    default:
      return surfaces;
  }
}

/** The messages of a call's arguments: a list, or one message by its name. */
export function readMessages(given: unknown): Fields[] {
  if (!isFields(given)) return [];
  const list: unknown = given.messages ?? given.a2ui_operations;
  return (Array.isArray(list) ? list : [given]).filter(isFields);
}

/** What the surfaces of a thread are after the messages of a call, and which of them it touched. */
export function applyMessages(surfaces: Surfaces, messages: readonly Fields[]): { surfaces: Surfaces; touched: string[] } {
  let now = surfaces;
  const touched = new Set<string>();
  for (const message of messages) {
    for (const [name, body] of Object.entries(message)) {
      if (!isFields(body)) continue;
      now = applyMessage(now, name, body);
      if (typeof body.surfaceId === "string") touched.add(body.surfaceId);
    }
  }
  return { surfaces: now, touched: [...touched].filter((it) => it in now) };
}

/** The value of a property: a literal, or what the data has at its path. Functions are shown by their argument. */
export function resolveValue(given: unknown, data: unknown, scope: readonly string[] = []): unknown {
  if (!isFields(given)) return given;
  for (const name of ["literalString", "literalNumber", "literalBoolean", "literalArray"]) if (name in given && !("path" in given)) return given[name];
  const path = given.path ?? given["@path"];
  if (typeof path === "string") {
    const found = getAt(data, path.startsWith("/") ? readPointer(path) : [...scope, ...readPointer(path)]);
    return found ?? given.literalString ?? given.literalNumber ?? given.literalBoolean ?? given.literalArray;
  }
  if (isFields(given.args)) return resolveValue(given.args.value, data, scope);
  return undefined;
}

export function findPath(given: unknown, scope: readonly string[] = []): string[] | null {
  const path = isFields(given) ? (given.path ?? given["@path"]) : undefined;
  if (typeof path !== "string") return null;
  return path.startsWith("/") ? readPointer(path) : [...scope, ...readPointer(path)];
}

export type Child = { id: string; scope: readonly string[] };

/** The children of a component: named ones, or one for each item of a list in the data. */
export function readChildren(given: unknown, data: unknown, scope: readonly string[]): Child[] {
  const names: unknown = isFields(given) && Array.isArray(given.explicitList) ? given.explicitList : given;
  if (Array.isArray(names)) return names.filter((it): it is string => typeof it === "string").map((id) => ({ id, scope }));
  const template = isFields(given) && isFields(given.template) ? given.template : isFields(given) ? given : {};
  const id = template.componentId;
  const path = template.dataBinding ?? template.path ?? template["@path"];
  if (typeof id !== "string" || typeof path !== "string") return [];
  const place = path.startsWith("/") ? readPointer(path) : [...scope, ...readPointer(path)];
  const items = getAt(data, place);
  const keys = typeof items === "object" && items !== null ? Object.keys(items) : [];
  return keys.slice(0, 200).map((key) => ({ id, scope: [...place, key] }));
}
