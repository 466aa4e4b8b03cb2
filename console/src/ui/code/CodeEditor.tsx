/** A text editor for prompts and JSON; CodeMirror is loaded when one is first shown. */
import { Suspense } from "react";

import { Loading } from "../states";
import { lazyPart } from "../loadPart";

export type CodeEditorProps = {
  label: string;
  value: string;
  onChange?: (next: string) => void;
  language: "markdown" | "json";
  minHeight?: number;
  maxHeight?: string;
};

const Editor = lazyPart(() => import("./Editor"));

export function CodeEditor(props: CodeEditorProps) {
  return <Suspense fallback={<Loading rows={4} />}><Editor {...props} /></Suspense>;
}
