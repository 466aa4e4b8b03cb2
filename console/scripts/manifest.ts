/** Writes `manifest.json` beside the built files: which sources they belong to, and how large they are. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { gzipSync } from "node:zlib";

import type { Plugin } from "vite";

const ROOT = join(import.meta.dirname, "..");
/** What the build depends on; `tests/server/test_console.py` reads the same list from the manifest. */
export const SOURCES = ["index.html", "package-lock.json", "package.json", "postcss.config.cjs", "public", "scripts", "src", "tsconfig.json", "vite.config.ts"];

function listFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => listFiles(join(path, name)));
}

function isPartOfTheBuild(path: string): boolean {
  return !/\.test\.tsx?$/.test(path);
}

/** The sha256 over the path and the content of every source file, in the order of their paths. */
export function hashSources(): string {
  const hash = createHash("sha256");
  const paths = SOURCES.flatMap((name) => listFiles(join(ROOT, name))).filter(isPartOfTheBuild);
  for (const path of paths.map((it) => relative(ROOT, it).split(sep).join("/")).sort()) {
    hash.update(`${path}\0`).update(readFileSync(join(ROOT, path))).update("\0");
  }
  return hash.digest("hex");
}

export function writeManifest(): Plugin {
  let out = "";
  return {
    name: "awaken-manifest",
    apply: "build",
    configResolved(config) {
      out = join(config.root, config.build.outDir);
    },
    closeBundle() {
      const files = listFiles(out)
        .map((path) => ({ path, content: readFileSync(path) }))
        .map(({ path, content }) => ({ name: relative(out, path).split(sep).join("/"), bytes: content.length, gzip: gzipSync(content).length }))
        .filter((it) => it.name !== "manifest.json")
        .sort((a, b) => (a.name < b.name ? -1 : 1));
      writeFileSync(join(out, "manifest.json"), `${JSON.stringify({ sources: SOURCES, sha256: hashSources(), files }, null, 1)}\n`);
    },
  };
}
