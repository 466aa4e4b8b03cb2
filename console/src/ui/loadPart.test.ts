import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";

// The address of the server is read from the page, and there is none here.
vi.mock("../api/address", () => ({ root: "" }));
const { noteReachable } = await import("../api/connection");
const { isMissingPart, loadPart } = await import("./loadPart");

const MISSING = new TypeError("Failed to fetch dynamically imported module: http://a/x.js");

test("a part that cannot be loaded is known by the words of each browser", () => {
  for (const message of ["Failed to fetch dynamically imported module: http://a/x.js", "error loading dynamically imported module: http://a/x.js", "Importing a module script failed.", "Unable to preload CSS for /assets/x.css"]) {
    expect(isMissingPart(new TypeError(message))).toBe(true);
  }
  expect(isMissingPart(new TypeError("Failed to fetch"))).toBe(false);
});

test("a part that did not come is loaded when the server is back", async () => {
  const load = vi.fn<() => Promise<string>>().mockRejectedValueOnce(MISSING).mockResolvedValueOnce("here");
  const findServer = vi.fn(() => Promise.resolve());
  expect(await loadPart(load, findServer)).toBe("here");
  expect(findServer).toHaveBeenCalledOnce();
  const broken = new Error("its own fault");
  await expect(loadPart(() => Promise.reject(broken), findServer)).rejects.toBe(broken);
});

test("while the server is known to be away nothing is loaded: a browser remembers a module that failed", async () => {
  let isBack = () => {};
  const findServer = () => new Promise<void>((resolve) => { isBack = resolve; });
  const load = vi.fn(() => Promise.resolve("here"));
  noteReachable(false);
  const part = loadPart(load, findServer);
  await Promise.resolve();
  expect(load).not.toHaveBeenCalled();
  noteReachable(true);
  isBack();
  expect(await part).toBe("here");
});

test("a part that cannot come leaves the page as it is, and says whether the server still has it", async () => {
  const findServer = () => Promise.resolve();
  const heard = vi.fn<(event: CustomEvent) => boolean>();
  const ask = vi.fn<(address: string) => Promise<{ ok: boolean }>>();
  vi.stubGlobal("window", { dispatchEvent: heard });
  vi.stubGlobal("fetch", ask);
  for (const [isThere, reason] of [[true, "failed"], [false, "gone"]] as const) {
    heard.mockClear();
    ask.mockResolvedValueOnce({ ok: isThere });
    const never = loadPart(() => Promise.reject(MISSING), findServer);
    await vi.waitFor(() => expect(heard).toHaveBeenCalledOnce());
    expect(heard.mock.calls[0]?.[0].detail).toBe(reason);
    expect(ask).toHaveBeenLastCalledWith("http://a/x.js", { method: "HEAD" });
    expect(await Promise.race([never, Promise.resolve("waits")])).toBe("waits");
  }
});

test("no part of the console is imported in another way", () => {
  const folder = join(import.meta.dirname, "..");
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((it) => /\.tsx?$/.test(it) && !/\.test\.tsx?$/.test(it) && !it.endsWith("schema.ts"));
  const others = sources.filter((it) => readFileSync(join(folder, it), "utf8").split("\n").some((line) => /\bimport\(/.test(line) && !/(lazyPart|loadPart)\(\(\) => import\(/.test(line)));
  expect(others).toEqual([]);
});
