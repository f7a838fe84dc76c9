// Sources and compiled stages next to each other; a line under the pointer or the cursor is marked in all of them.
import type { EditorView } from "@codemirror/view";
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { disableGlobalCursorStyles, Panel, PanelGroup, PanelResizeHandle } from "react-resizable-panels";
import type { Text } from "../work/code.ts";
import type { Note } from "../work/results.ts";
import { createEditor, diagnose, mark } from "./editor.ts";
import { Pending, useLoaded } from "./kit.tsx";
import { reader } from "./reader.ts";

disableGlobalCursorStyles();

const FIRST = ["ttgir", "ptx", "amdgcn"]; // what is shown first next to the source
const MOST_PANES = 4;
const NARROW = "(max-width: 700px)";

interface Here {
  file: number;
  line: number;
  pane: number; // where it comes from
  isCursor: boolean;
}

type Placed = Note & { place: [file: number, line: number] | undefined };

export function CodeTab({ id, launch, notes }: { id: number; launch: number; notes: Note[] }) {
  const { value, problem } = useLoaded(
    () => Promise.all([reader.code(id, launch), reader.places(id, launch, notes)]), [id, launch, notes.length],
  );
  const [texts, places] = value ?? [];
  if (!texts || !places) return <Pending problem={problem} />;
  if (!texts.length) return <p>The reproducer has neither a source nor compiled code.</p>;
  return <Panes texts={texts} notes={notes.map((note, at) => ({ ...note, place: places[at] }))} />;
}

function Panes({ texts, notes }: { texts: Text[]; notes: Placed[] }) {
  const [panes, setPanes] = useState(() => firstPanes(texts));
  const [here, setHere] = useState<Here>();
  const isNarrow = matchMedia(NARROW).matches;
  const change = (pane: number, text: number) => setPanes(panes.map((each, at) => (at === pane ? text : each)));
  return (
    <>
      <p class="soft">
        Lines that belong together are marked in all panes. <kbd>Ctrl</kbd>+<kbd>F</kbd> searches in a pane.{" "}
        {panes.length < Math.min(MOST_PANES, texts.length) && (
          <button type="button" onClick={() => setPanes([...panes, texts.findIndex((_, text) => !panes.includes(text))])}>Add a pane</button>
        )}{" "}
        {panes.length > 1 && <button type="button" onClick={() => setPanes(panes.slice(0, -1))}>Remove the last pane</button>}
      </p>
      {notes.length > 0 && <Notes texts={texts} notes={notes} show={([file, line]) => setHere({ file, line, pane: -1, isCursor: true })} />}
      <PanelGroup class="panes" direction={isNarrow ? "vertical" : "horizontal"}>
        {panes.map((text, pane) => (
          <Fragment key={pane}>
            {pane > 0 && <PanelResizeHandle className="handle" aria-label={`Width of pane ${pane}`} />}
            <Panel id={`pane-${pane}`} order={pane} minSize={10} className="pane">
              <select aria-label={`Code in pane ${pane + 1}`} value={text} onChange={(event) => change(pane, Number(event.currentTarget.value))}>
                {texts.map((each, number) => <option key={number} value={number}>{each.name}</option>)}
              </select>
              {texts[text]!.note && <span class="soft"> {texts[text]!.note}</span>}
              <Code key={text} text={texts[text]!} pane={pane} notes={notes.filter((each) => each.place?.[0] === text)} here={here} setHere={setHere} />
            </Panel>
          </Fragment>
        ))}
      </PanelGroup>
    </>
  );
}

/** The sanitizer's answers; each leads to its line. */
function Notes({ texts, notes, show }: { texts: Text[]; notes: Placed[]; show: (place: [number, number]) => void }) {
  return (
    <ul class="notes" aria-label="Answers of the sanitizer">
      {notes.map(({ level, title, message, place, file, line }, at) => (
        <li key={at} class={level}>
          <strong>{level === "finding" ? title : `${level}, ${title}`}</strong>{" "}
          {place ? <button type="button" class="link" onClick={() => show(place)}>{texts[place[0]]!.name}:{place[1]}</button> : file && `${file}:${line}`}{" "}
          {message}
        </li>
      ))}
    </ul>
  );
}

function firstPanes(texts: Text[]): number[] {
  const stages = FIRST.map((name) => texts.findIndex((text) => text.name === name)).filter((at) => at > 0);
  const other = stages[0] ?? texts.findIndex((text, at) => at > 0 && text.text !== "");
  return other > 0 && !matchMedia(NARROW).matches ? [0, other] : [0];
}

function Code({ text, pane, notes, here, setHere }: { text: Text; pane: number; notes: Placed[]; here: Here | undefined; setHere: (here: Here | undefined) => void }) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>();
  useEffect(() => {
    view.current = createEditor(parent.current!, text, (line, isCursor) => {
      const at = text.lines[line - 1] ?? 0;
      setHere(at ? { file: text.files[line - 1]!, line: at, pane, isCursor } : undefined);
    });
    diagnose(view.current, notes.map(({ level, title, message, place }) => ({ line: place![1], isError: level === "finding", message: `${title}: ${message}` })));
    return () => view.current!.destroy();
  }, [text]);
  useEffect(() => {
    const lines = new Set<number>();
    text.lines.forEach((line, at) => here && line === here.line && text.files[at] === here.file && lines.add(at + 1));
    mark(view.current!, lines, lines.size > 0 && here!.isCursor && here!.pane !== pane);
  }, [here, text]);
  return <div class="code" ref={parent} />;
}
