/** How the console is built: into the Python package, with names that carry the hash of their content. */
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

import { writeManifest } from "./scripts/manifest.ts";

const server = process.env.AWAKEN_URL ?? "http://127.0.0.1:38080";

export default defineConfig(({ command }) => ({
  // Chunks find each other relative to their module, so that the console works under any mount.
  base: command === "build" ? "./" : "/console/",
  plugins: [react(), writeManifest()],
  html: { cspNonce: "__CSP_NONCE__" },
  build: {
    outDir: "../src/awaken/protocols/console/built",
    emptyOutDir: true,
    // One style sheet: a page that is visited while the server is away must not come without its style.
    cssCodeSplit: false,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    // The icons are one file, and so is what pages read of the server: a file of a few hundred bytes is mostly the names of others.
    rolldownOptions: { output: { advancedChunks: { groups: [{ name: "icons", test: /@tabler[\\/]icons-react/ }, { name: "api", test: /console[\\/]src[\\/]api[\\/]/ }] } } },
  },
  server: { proxy: Object.fromEntries(["/v1", "/health", "/openapi.json", "/metrics"].map((path) => [path, server])) },
  // Pure modules leave nothing behind: a process for each file would be three quarters of the time.
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "node", isolate: false, unstubGlobals: true },
}));
