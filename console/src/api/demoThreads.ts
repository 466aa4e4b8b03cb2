/** How the ids of the threads of the demo data begin; the server lets nobody decide what waits on them. */
const PREFIX = "demo-data-";

export function isDemoThread(threadId: string): boolean {
  return threadId.startsWith(PREFIX);
}
