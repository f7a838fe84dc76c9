// CodeMirror as a reader of code: lines can be marked, and tell when the pointer or the cursor is on them.
import { cpp } from "@codemirror/lang-cpp";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { gas } from "@codemirror/legacy-modes/mode/gas";
import { json } from "@codemirror/legacy-modes/mode/javascript";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField, type Extension } from "@codemirror/state";
import {
  Decoration, drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers, type DecorationSet,
} from "@codemirror/view";
import { standardKeymap } from "@codemirror/commands";
import { tags } from "@lezer/highlight";
import type { Text } from "../work/code.ts";

/** MLIR and LLVM: values, types, operations, comments. */
const llvm = StreamLanguage.define<null>({
  token(stream) {
    if (stream.match(/^(?:\/\/|;).*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"/)) return "string";
    if (stream.match(/^[%@][\w.$-]+/)) return "variableName";
    if (stream.match(/^[#!][\w.$-]+/)) return "meta";
    if (stream.match(/^-?(?:0x[0-9a-fA-F]+|\d[\d.]*(?:[eE][+-]?\d+)?)/)) return "number";
    if (stream.match(/^(?:tensor|memref|ptr|f\d+|bf16|i\d+|index|void|float|double|half)\b/)) return "typeName";
    if (stream.match(/^[a-z_][\w]*(?:\.[\w]+)+/)) return "keyword";
    if (stream.match(/^[A-Za-z_][\w]*/)) return null;
    stream.next();
    return null;
  },
});

const LANGUAGES: Record<Text["language"], () => Extension> = {
  python, c: cpp, llvm: () => llvm, assembly: () => StreamLanguage.define(gas), json: () => StreamLanguage.define(json),
};

// CodeMirror's own style is for light pages only, and too pale in places.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "light-dark(#7a3e9d, #c7a5f0)" },
  { tag: [tags.string, tags.special(tags.string)], color: "light-dark(#9c3a1c, #e0a58a)" },
  { tag: [tags.number, tags.bool, tags.null, tags.literal], color: "light-dark(#1a6b3c, #8fd0a5)" },
  { tag: [tags.typeName, tags.className, tags.meta], color: "light-dark(#1f6680, #7cc4d8)" },
  { tag: [tags.comment], color: "light-dark(#5b626b, #a0a9b3)" },
  { tag: [tags.definition(tags.variableName), tags.function(tags.variableName)], color: "light-dark(#1d5aa8, #9dbdf5)" },
]);

const setMarked = StateEffect.define<Set<number>>();
const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(old, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(setMarked)) continue;
      const { doc } = transaction.state;
      const lines = [...effect.value].filter((line) => line <= doc.lines).sort((a, b) => a - b);
      return Decoration.set(lines.map((line) => Decoration.line({ class: "marked" }).range(doc.line(line).from)));
    }
    return old;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** What every view of code here is made of. It can't be edited, but the cursor walks in it. */
export function readOnly(language: Text["language"], label: string): Extension {
  return [
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ tabindex: "0", "aria-label": label, "aria-readonly": "true" }),
    EditorView.darkTheme.of(matchMedia("(prefers-color-scheme: dark)").matches),
    lineNumbers(), highlightSpecialChars(), drawSelection(), highlightActiveLine(), highlightActiveLineGutter(), search({ top: true }),
    keymap.of([...standardKeymap, ...searchKeymap, ...lintKeymap]),
    LANGUAGES[language](),
    syntaxHighlighting(colours),
  ];
}

/** `on(line, isCursor)`: the pointer or the cursor came to a line. */
export function createEditor(parent: HTMLElement, text: Text, on: (line: number, isCursor: boolean) => void): EditorView {
  let last = 0;
  const view: EditorView = new EditorView({
    parent,
    doc: text.text,
    extensions: [
      readOnly(text.language, text.name),
      marked,
      EditorView.domEventHandlers({
        mousemove(event, view) {
          const at = view.posAtCoords({ x: event.clientX, y: event.clientY });
          const line = at === null ? 0 : view.state.doc.lineAt(at).number;
          if (line && line !== last) on((last = line), false);
        },
      }),
      EditorView.updateListener.of((update) => {
        if (update.selectionSet && update.view.hasFocus) on(update.state.doc.lineAt(update.state.selection.main.head).number, true);
      }),
    ],
  });
  return view;
}

/** Underline lines, with a sign next to their numbers; F8 walks from one to the next. */
export function diagnose(view: EditorView, notes: { line: number; isError: boolean; message: string }[]): void {
  if (!notes.length) return;
  const found = notes.filter(({ line }) => line <= view.state.doc.lines).map(({ line, isError, message }) => {
    const { from, to, text } = view.state.doc.line(line);
    return { from: from + (text.length - text.trimStart().length), to, severity: isError ? ("error" as const) : ("info" as const), message };
  });
  view.dispatch({ effects: StateEffect.appendConfig.of(lintGutter()) });
  view.dispatch(setDiagnostics(view.state, found));
}

/** Mark lines; `reveal`: bring the first one into sight. */
export function mark(view: EditorView, lines: Set<number>, reveal: boolean): void {
  const first = Math.min(...lines);
  const effects: StateEffect<unknown>[] = [setMarked.of(lines)];
  if (reveal && first <= view.state.doc.lines) effects.push(EditorView.scrollIntoView(view.state.doc.line(first).from, { y: "center" }));
  view.dispatch({ effects });
}
