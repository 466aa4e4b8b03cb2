/** A text editor for JSON, with colours and brackets that match. Loaded with the pages that edit. Tab leaves it, so that the keyboard is never caught. */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";

import { cspNonce } from "./nonce";

const colors = HighlightStyle.define([
  { tag: tags.propertyName, color: "light-dark(#3b4aa8, #a9b8ff)" },
  { tag: tags.string, color: "light-dark(#0b6b3a, #8fdcae)" },
  { tag: [tags.number, tags.bool, tags.null], color: "light-dark(#9a3b00, #ffb784)" },
]);
const look = EditorView.theme({
  "&": { fontSize: "12px", backgroundColor: "var(--aw-surface)", border: "1px solid var(--aw-line)", borderRadius: "4px" },
  "&.cm-focused": { outline: "2px solid light-dark(var(--mantine-color-indigo-7), var(--mantine-color-indigo-3))" },
  ".cm-content": { fontFamily: "var(--mantine-font-family-monospace)", caretColor: "currentColor" },
  ".cm-gutters": { backgroundColor: "var(--aw-canvas)", color: "var(--mantine-color-dimmed)", border: "none" },
  ".cm-scroller": { minHeight: "160px", maxHeight: "46vh" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "light-dark(#d3dbff, #33406e)" },
  ".cm-cursor": { borderLeftColor: "currentColor" },
});

type Props = { label: string; initial: string; onChange: (text: string) => void };

/** `initial` is read once: a change of it needs another `key`. */
export default function JsonEditor({ label, initial, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    if (host.current === null) return;
    const view = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: initial,
        extensions: [
          EditorView.cspNonce.of(cspNonce), lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), json(), syntaxHighlighting(colors), look, EditorView.lineWrapping,
          keymap.of([...defaultKeymap, ...historyKeymap]),
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => { if (update.docChanged) latest.current(update.state.doc.toString()); }),
        ],
      }),
    });
    return () => view.destroy();
    // The document is the editor's own after it was made.
  }, []);
  return <div ref={host} />;
}
