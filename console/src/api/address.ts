/** Where this server is: the console may be mounted below any path. */

function readRoot(): string {
  const given = document.querySelector<HTMLMetaElement>('meta[name="awaken-root"]')?.content ?? "";
  return given.startsWith("__") ? "" : given;
}

/** The path below which the server is mounted, without a slash at its end; "" at the root. */
export const root = readRoot();
/** The address of the API, for requests and for snippets that people copy. */
export const serverUrl = `${location.origin}${root}`;
