import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";

// The address of the server is read from the page, and there is none here.
vi.mock("../api/address", () => ({ root: "" }));
const { isMissingPart, loadPart } = await import("./loadPart");

const MISSING = new TypeError("Failed to fetch dynamically imported module: http://a/x.js");

test("a part that cannot be loaded is known by the words of each browser", () => {
  for (const message of ["Failed to fetch dynamically imported module: http://a/x.js", "error loading dynamically imported module: http://a/x.js", "Importing a module script failed.", "Unable to preload CSS for /assets/x.css"]) {
    expect(isMissingPart(new TypeError(message))).toBe(true);
  }
  expect(isMissingPart(new TypeError("Failed to fetch"))).toBe(false);
});

test("a part that did not come is loaded when the server is back; one that the server does not have leaves the page as it is", async () => {
  const load = vi.fn<() => Promise<string>>().mockRejectedValueOnce(MISSING).mockResolvedValueOnce("here");
  const findServer = vi.fn(() => Promise.resolve());
  expect(await loadPart(load, findServer)).toBe("here");
  expect(findServer).toHaveBeenCalledOnce();
  const gone = vi.fn();
  vi.stubGlobal("window", { dispatchEvent: gone });
  const never = loadPart(() => Promise.reject(MISSING), findServer);
  await vi.waitFor(() => expect(gone).toHaveBeenCalledOnce());
  expect(await Promise.race([never, Promise.resolve("waits")])).toBe("waits");
  const broken = new Error("its own fault");
  await expect(loadPart(() => Promise.reject(broken), findServer)).rejects.toBe(broken);
});

test("no part of the console is imported in another way", () => {
  const folder = join(import.meta.dirname, "..");
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((it) => /\.tsx?$/.test(it) && !/\.test\.tsx?$/.test(it) && !it.endsWith("schema.ts"));
  const others = sources.filter((it) => readFileSync(join(folder, it), "utf8").split("\n").some((line) => /\bimport\(/.test(line) && !/(lazyPart|loadPart)\(\(\) => import\(/.test(line)));
  expect(others).toEqual([]);
});
