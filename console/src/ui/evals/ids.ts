/** Ids of datasets, cases, variants and evals. Pure. */
const ID = /^[A-Za-z0-9._-]{1,128}$/;

export function isEvalId(id: string): boolean {
  return ID.test(id);
}
