/** Reads the search parameters of an address: what a page does not know is dropped, what is not a text is made one. */

export type Search<Name extends string> = Partial<Record<Name, string>>;

export function keepTexts<Name extends string>(names: readonly Name[]): (given: Record<string, unknown>) => Search<Name> {
  return (given) => {
    const kept: Search<Name> = {};
    for (const name of names) {
      const value = given[name];
      if (typeof value === "string" ? value !== "" : typeof value === "number" || typeof value === "boolean") kept[name] = String(value);
    }
    return kept;
  };
}
