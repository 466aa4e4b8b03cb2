/** How the processes are spread over publications. Pure. */

export type PublicationGroup = { publication: number | null; count: number };

/** Counts processes by the publication that they have applied, the newest first. */
export function countByPublication(workers: readonly { publication: number | null }[]): PublicationGroup[] {
  const counts = new Map<number | null, number>();
  for (const { publication } of workers) counts.set(publication, (counts.get(publication) ?? 0) + 1);
  return [...counts].map(([publication, count]) => ({ publication, count })).sort((a, b) => (b.publication ?? 0) - (a.publication ?? 0));
}
