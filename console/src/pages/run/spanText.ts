/** The words for spans. Pure. */
import { run as texts } from "../../texts/run";
import type { Span } from "./waterfall";

export function nameSpan(span: Span): string {
  switch (span.kind) {
    case "step": return `${texts.waterfall.kinds.step} ${span.n ?? ""}`.trim();
    case "model": return span.model ?? texts.waterfall.kinds.model ?? "";
    case "tool": return span.tool ?? texts.waterfall.kinds.tool ?? "";
    case "wait": return `${texts.waterfall.kinds.wait}: ${(span.reason ?? "").replaceAll("_", " ")}`;
    default: return span.kind;
  }
}
