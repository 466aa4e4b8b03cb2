/** Tokens of different scopes, and a page that has one. */
import { createHash } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Page } from "@playwright/test";

const TOKENS = {
  all: { access: ["read", "invoke", "decide", "config", "publish", "operate", "admin"] },
  reader: { access: ["read"] },
  config: { access: ["read", "config"] },
  caller: { access: ["invoke"] },
  acme: { access: ["read", "invoke"], tenant_id: "acme" },
  umbrella: { access: ["read", "invoke"], tenant_id: "umbrella" },
} as const;
export type TokenName = keyof typeof TOKENS;

export function tokenOf(name: TokenName): string {
  return `token-of-${name}-that-is-long-enough`;
}

/** Writes the file of tokens that a server reads. */
export async function writeTokens(): Promise<string> {
  const specs = Object.entries(TOKENS).map(([id, it]) => ({ id, sha256: createHash("sha256").update(tokenOf(id as TokenName)).digest("hex"), ...it }));
  const file = join(await mkdtemp(join(tmpdir(), "awaken-tokens-")), "tokens.json");
  await writeFile(file, JSON.stringify(specs));
  return file;
}

/** Gives this tab a token, as its dialog would. */
export async function giveToken(page: Page, url: string, name: TokenName): Promise<void> {
  await page.goto(`${url}/health`);
  await page.evaluate((token) => sessionStorage.setItem("awaken.token", token), tokenOf(name));
}
