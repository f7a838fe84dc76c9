// Everything that reads a reproducer runs here, in a thread of its own: the page never waits for it.
import { expose } from "comlink";
import { openArchive } from "../format/archive.ts";
import { ofBlob, ofUrl } from "../format/bytes.ts";
import type { Checks } from "../format/checks.ts";
import { FormatError, visible } from "../format/errors.ts";
import { openFolder } from "../format/folder.ts";
import type { Manifest } from "../format/manifest.ts";
import type { State } from "../format/memory_index.ts";
import { Reproducer, type Launch } from "../format/reproducer.ts";
import { placeIn, textsOf } from "./code.ts";
import { flows } from "./flows.ts";
import { pointers, strips } from "./memory_map.ts";
import { picture } from "./picture.ts";
import { decodeResults, type Note } from "./results.ts";

/** Files that were dropped or chosen, or that `kerncap view` serves; paths are below any folder. */
export type Given = { path: string; blob: Blob }[] | { path: string; url: string; size: number }[];

export interface LaunchFacts {
  number: number;
  position: number | undefined; // in the program, of a launch of a range
  manifest: Manifest;
  checks: Checks | undefined;
}

export interface Facts {
  id: number;
  name: string;
  bytes: number; // of all files
  manifestSha256: string;
  launches: LaunchFacts[];
  range: { missing: { position: number; reason: string; kernel: string }[]; notes: string[] } | undefined;
}

const MAX_RESULTS_BYTES = 64 * 2 ** 20;
const opened: Reproducer[] = [];

const api = {
  async open(given: Given): Promise<Facts> {
    const files = bytesOf(given);
    const name = files.length === 1 ? files[0]!.path : (files[0]?.path.split("/")[0] ?? "");
    if (!files.length) throw new FormatError("nothing", "no file was given");
    const reproducer = await Reproducer.open(files.length === 1 ? await openArchive(files[0]!.bytes, name) : openFolder(files, name));
    const { range, launches, manifestSha256 } = reproducer;
    return shown({
      id: opened.push(reproducer) - 1,
      name,
      bytes: files.reduce((sum, file) => sum + file.bytes.size, 0),
      manifestSha256,
      launches: launches.map(({ number, manifest, checks }) => ({ number, position: range?.launches[number]?.position, manifest, checks })),
      range: range && {
        missing: (range.missing ?? []).map(({ position, reason, kernel }) => ({ position, reason, kernel: kernel ?? "" })),
        notes: range.notes ?? [],
      },
    });
  },

  /** What other commands printed with --json. */
  async results(given: Given) {
    const [file] = bytesOf(given);
    if (file!.bytes.size > MAX_RESULTS_BYTES) throw new FormatError(file!.path, `more than ${MAX_RESULTS_BYTES} bytes`);
    return shown(decodeResults(await file!.bytes.read(0, file!.bytes.size), file!.path));
  },

  /** The source file and line of each note, as `code` numbers them; undefined if it is about another file. */
  places: (id: number, launch: number, notes: Note[]) => placeIn(...at(id, launch), notes),

  code: (id: number, launch: number) => textsOf(...at(id, launch)),
  strips: (id: number, launch: number) => shown(strips(at(id, launch)[1])),
  pointers: (id: number, launch: number) => pointers(...at(id, launch)),
  flows: (id: number) => flows(opened[id]!.launches),

  picture(id: number, launch: number, view: number, state: State, piece: number) {
    const [reproducer, one] = at(id, launch);
    return picture(reproducer, one, one.manifest.views[view]!, state, piece);
  },

  verify: (id: number, progress: (bytes: number) => void) => {
    let [done, told] = [0, 0];
    return opened[id]!.verify((bytes) => {
      done += bytes;
      if (done - told < 2 ** 22) return;
      told = done;
      progress(done);
    });
  },
};

export type Api = typeof api;

const bytesOf = (given: Given) =>
  given.map((one) => ({ path: one.path, bytes: "blob" in one ? ofBlob(one.blob) : ofUrl(one.url, one.size) }));

function at(id: number, launch: number): [Reproducer, Launch] {
  return [opened[id]!, opened[id]!.launches[launch]!];
}

/** With every unseen character of every text written out: no page shows what a stranger hid in a name. */
function shown<T>(value: T): T {
  if (typeof value === "string") return visible(value, "\n\t") as T;
  if (Array.isArray(value)) return value.map(shown) as T;
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [visible(key), shown(each)])) as T;
}

expose(api);
