/** Files as content blocks. */
import type { Part } from "./types";

export const MAX_BYTES = 5_000_000;
const TEXT_TYPE = /^(text\/|application\/(json|xml|yaml))/;

export function chooseKind(mediaType: string): "image" | "audio" | "video" | "document" {
  const [kind] = mediaType.split("/");
  return kind === "image" || kind === "audio" || kind === "video" ? kind : "document";
}

export function encodeBytes(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

export async function readAttachment(file: File): Promise<Part> {
  const mediaType = file.type === "" ? "text/plain" : file.type;
  const source = { type: "base64" as const, media_type: TEXT_TYPE.test(mediaType) ? "text/plain" : mediaType, data: encodeBytes(new Uint8Array(await file.arrayBuffer())) };
  const kind = chooseKind(mediaType);
  return kind === "document" ? { type: kind, source, title: file.name } : { type: kind, source };
}
