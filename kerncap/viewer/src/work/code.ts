// Sources and compiled stages as text, each line with the line of the source that it comes from.
import type { Manifest } from "../format/manifest.ts";
import type { Launch, Reproducer } from "../format/reproducer.ts";
import { link, matcher } from "./locations.ts";
import type { Note } from "./results.ts";

const MAX_FILES = 24;
const MAX_LINES = 20_000;
const MAX_LINE = 1600;
const MAX_TEXT_BYTES = 64 * 2 ** 20;
const IMAGES = /^(cubin|hsaco|fatbin|object)$/;

export interface Text {
  name: string; // "source/kernel.py", "ttir"
  language: "python" | "c" | "llvm" | "assembly" | "json";
  text: string;
  /** Of each line the number of a source file (its place in `Code.texts`), and the line there; 0: not known. */
  files: Int32Array;
  lines: Int32Array;
  note: string;
}

export async function placeIn(opened: Reproducer, launch: Launch, notes: Note[]) {
  const place = placer(launch.manifest, await sourcesOf(opened, launch.manifest));
  return notes.map(({ file, line }) => (file !== null && line !== null ? place(file, line) : undefined));
}

export async function textsOf(opened: Reproducer, launch: Launch): Promise<Text[]> {
  const manifest = launch.manifest;
  const texts = await sourcesOf(opened, manifest);
  const place = placer(manifest, texts);
  for (const code of (manifest.code ?? []).slice(0, MAX_FILES)) {
    if (IMAGES.test(code.stage)) {
      const note = `machine code of ${code.file.size.toLocaleString("en")} bytes; \`kerncap report\` lists its functions and lines`;
      texts.push({ name: code.stage, language: "assembly", text: "", files: new Int32Array(), lines: new Int32Array(), note });
      continue;
    }
    const { lines, note } = await linesOf(opened, code.file);
    const linked = link(code.stage, lines);
    const places = linked.places.map((each) => each && place(...each));
    texts.push({
      name: code.stage,
      language: stageLanguage(code.stage),
      text: linked.lines.join("\n"),
      files: Int32Array.from(places, (each) => each?.[0] ?? -1),
      lines: Int32Array.from(places, (each) => each?.[1] ?? 0),
      note,
    });
  }
  return texts;
}

async function sourcesOf(opened: Reproducer, manifest: Manifest): Promise<Text[]> {
  const source = manifest.source;
  const stored = source ? [source.file, ...(source.originals ?? []).filter((file) => file.path !== source.file.path)] : [];
  const texts: Text[] = [];
  for (const file of stored.slice(0, MAX_FILES)) {
    const { lines, note } = await linesOf(opened, file);
    const number = texts.length;
    const own = Int32Array.from(lines, (_, at) => at + 1);
    texts.push({ name: file.path, language: languageOf(file.path, manifest), text: lines.join("\n"), files: own.map(() => number), lines: own, note });
  }
  return texts;
}

async function linesOf(opened: Reproducer, file: { path: string; size: number; sha256: string }) {
  if (file.size > MAX_TEXT_BYTES) return { lines: [], note: `too large to be shown: ${file.size.toLocaleString("en")} bytes` };
  const all = new TextDecoder().decode(await opened.file(file)).split("\n");
  if (all.at(-1) === "") all.pop();
  const lines = all.slice(0, MAX_LINES).map((line) => line.slice(0, MAX_LINE).replace(/\r$/, ""));
  const cut = all.length - lines.length;
  return { lines, note: cut ? `${cut.toLocaleString("en")} of ${all.length.toLocaleString("en")} lines are not shown` : "" };
}

/** From a place that a compiler names to a source file's number and the line in it. */
function placer(manifest: Manifest, texts: Text[]): (file: string, line: number) => [number, number] | undefined {
  const source = manifest.source;
  if (!source) return () => undefined;
  const origins = source.origins ?? [];
  const ofOrigin = matcher(origins.map((origin) => origin.original_file));
  const original = new Map(Object.entries(source.build?.headers ?? {}).map(([name, path]) => [path, name]));
  if (source.build?.name) original.set(source.build.unit, source.build.name);
  const find = matcher(texts.map((text) => original.get(text.name) ?? text.name));
  const findStored = matcher(texts.map((text) => text.name));
  const checked = (number: number | undefined, line: number): [number, number] | undefined =>
    number !== undefined && line > 0 && line <= texts[number]!.lines.length ? [number, line] : undefined;
  return (file, line) => {
    const near = ofOrigin(file);
    for (const origin of near === undefined ? [] : origins) {
      const inside = line - origin.original_line;
      if (origin.original_file === origins[near!]!.original_file && inside >= 0 && inside < Math.max(1, origin.lines)) {
        return checked(0, origin.line + inside);
      }
    }
    return checked(find(file) ?? findStored(file), line);
  };
}

function languageOf(path: string, manifest: Manifest): Text["language"] {
  if (path.endsWith(".py")) return "python";
  if (path.endsWith(".ptx")) return "assembly";
  if (path.endsWith(".json")) return "json";
  return ["cuda", "hip"].includes(manifest.source?.language ?? "") ? "c" : "python";
}

function stageLanguage(stage: string): Text["language"] {
  if (["ttir", "ttgir", "source", "ttsharedir", "llir"].includes(stage)) return "llvm";
  return stage === "metadata" ? "json" : "assembly";
}
