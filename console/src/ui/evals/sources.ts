/** Where the configuration of a variant comes from: `live`, `draft:ID` or `publication:NO`. Pure. */

export const LIVE = "live";

/** What the choice writes into the variant. */
export function writeSource(source: string): { draft_id?: string; publication?: number } {
  const [kind, id = ""] = source.split(/:(.*)/s);
  return kind === "draft" ? { draft_id: id } : kind === "publication" ? { publication: Number(id) } : {};
}
