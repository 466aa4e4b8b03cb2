/** CodeMirror with the console's look. Tab leaves the editor, as in every other field. */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { bracketMatching, defaultHighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { linter } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { useComputedColorScheme } from "@mantine/core";
import { classHighlighter } from "@lezer/highlight";
import { useEffect, useRef } from "react";

import { cspNonce } from "../nonce";
import type { CodeEditorProps } from "./CodeEditor";
import classes from "./Editor.module.css";

function languageOf(name: CodeEditorProps["language"]): Extension {
  return name === "json" ? [json(), linter(jsonParseLinter()), bracketMatching()] : markdown();
}

function themeOf(scheme: "light" | "dark"): Extension {
  return [scheme === "light" ? syntaxHighlighting(defaultHighlightStyle) : syntaxHighlighting(classHighlighter), EditorView.theme({}, { dark: scheme === "dark" })];
}

const LOOK = EditorView.theme({
  "&": { fontSize: "13px", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "transparent", borderRight: "1px solid var(--aw-line)", color: "var(--mantine-color-dimmed)" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--mantine-color-text)" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
});

export default function Editor({ label, value, onChange, language, minHeight = 160, maxHeight = "60vh" }: CodeEditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(onChange);
  const scheme = useComputedColorScheme("light");
  latest.current = onChange;
  const isReadOnly = onChange === undefined;
  const theme = useRef(new Compartment());
  const colours = useRef(scheme);
  colours.current = scheme;
  const initial = useRef(value);
  initial.current = value;

  useEffect(() => {
    if (place.current === null) return;
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: initial.current,
        extensions: [
          EditorView.cspNonce.of(cspNonce),
          lineNumbers(), history(), drawSelection(), highlightSpecialChars(), highlightSelectionMatches(),
          keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
          EditorView.lineWrapping,
          languageOf(language),
          theme.current.of(themeOf(colours.current)),
          LOOK,
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          EditorState.readOnly.of(isReadOnly),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [language, label, isReadOnly]);

  // Another theme changes the colours only: the cursor, and what can be undone, stay.
  useEffect(() => {
    view.current?.dispatch({ effects: theme.current.reconfigure(themeOf(scheme)) });
  }, [scheme]);

  useEffect(() => {
    const now = view.current?.state.doc.toString();
    if (now === undefined || now === value) return;
    view.current?.dispatch({ changes: { from: 0, to: now.length, insert: value } });
  }, [value]);

  return <div ref={place} className={classes.editor} style={{ "--editor-min": `${minHeight}px`, "--editor-max": maxHeight } as React.CSSProperties} />;
}
