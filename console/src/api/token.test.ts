import { expect, test } from "vitest";

import { readLoginUrl } from "./token";

const refusal = (body: unknown) => new Response(typeof body === "string" ? body : JSON.stringify(body), { status: 401 });

test.each(["/login?next=/console", "https://login.example.com/"])("%s is a page to log in", async (url) => {
  expect(await readLoginUrl(refusal({ error: "authentication required", login_url: url }))).toBe(url);
});

test.each([{}, { login_url: 7 }, { login_url: "javascript:alert(1)" }, { login_url: "//evil.example" }, "no JSON", null])("%j names none", async (body) => {
  expect(await readLoginUrl(refusal(body))).toBeNull();
});
