import { expect, test } from "vitest";

import { isMissingPart } from "./NewerVersion";

test("a part that cannot be loaded is known by the words of each browser", () => {
  for (const message of ["Failed to fetch dynamically imported module: http://a/x.js", "error loading dynamically imported module: http://a/x.js", "Importing a module script failed.", "Unable to preload CSS for /assets/x.css"]) {
    expect(isMissingPart(new TypeError(message))).toBe(true);
  }
  expect(isMissingPart(new TypeError("Failed to fetch"))).toBe(false);
});
