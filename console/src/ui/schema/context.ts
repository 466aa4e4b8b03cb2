/** What every field of a form knows: the schema, the value's change, what is wrong, and what to offer. */
import { createContext, use } from "react";

import { getOwn, messagesAt, type FieldProblem, type Json, type JsonSchema, type Path } from "./model";

export type FormContext = {
  root: JsonSchema;
  problems: readonly FieldProblem[];
  suggestions: Readonly<Record<string, readonly string[]>>;
  multiline: readonly string[];
  isDisabled: boolean;
  change: (path: Path, next: Json | undefined) => void;
  /** Says whether a field holds a text that makes no value. */
  noteText: (path: Path, isBad: boolean) => void;
};

export const Context = createContext<FormContext | null>(null);

export function useForm(): FormContext {
  const form = use(Context);
  if (form === null) throw new Error("A field stands in a form.");
  return form;
}

/** The messages about a field, as one text. */
export function useProblem(path: Path): string | undefined {
  const found = messagesAt(useForm().problems, path);
  return found.length === 0 ? undefined : found.join(" ");
}

export function useSuggestions(path: Path): readonly string[] | undefined {
  const { suggestions } = useForm();
  const pattern = path.map((it) => (typeof it === "number" ? "*" : it)).join("/");
  return getOwn(suggestions, pattern) ?? getOwn(suggestions, String(path.filter((it) => typeof it === "string").at(-1) ?? ""));
}
