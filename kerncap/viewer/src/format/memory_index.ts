// memory/index: which chunk is where (FORMAT.md, "Memory"), checked as kerncap/format/memory_index.py checks it.
import { decode } from "@msgpack/msgpack";
import type { Data } from "./bytes.ts";
import { FormatError } from "./errors.ts";
import { INDEX } from "./names.ts";

export type State = "pre" | "post";
export const STATES: readonly State[] = ["pre", "post"];

/** A stored chunk: `offset` and `stored` bytes in the files of chunks, `raw` bytes of memory. */
export interface Row {
  digest: Data;
  offset: number;
  stored: number;
  raw: number;
  isPacked: boolean;
}

const [ROW, ENTRY] = [52, 12];
const ZERO_ROW = 0;

/** The index of each launch: one, or those of a range. `sizes`: of each launch's regions, in bytes. */
export function decodeIndex(
  data: Data, isRange: boolean, sizes: number[][], chunkBytes: number, chunkFiles: number[],
): MemoryIndex[] {
  let file: any;
  try {
    file = decode(data);
  } catch (error) {
    fail(`not a memory index: ${error}`);
  }
  if (file?.version !== (isRange ? 2 : 1)) fail("its version is not known");
  if (file.chunk_bytes !== chunkBytes) fail(`its chunk size is not the manifest's, ${chunkBytes}`);
  const states: unknown = isRange ? file.launches : [[file.pre, file.post]];
  if (!Array.isArray(states) || states.length !== sizes.length) fail(`it has not ${sizes.length} launches`);
  const table = column("table", file.table, ROW);
  checkTable(table, chunkBytes, chunkFiles);
  return (states as unknown[]).map((pair, launch) => {
    if (!Array.isArray(pair) || pair.length !== 2) fail("a launch without its two states");
    const [pre, post] = STATES.map((state, at) => new Entries(state, column(state, pair[at], ENTRY)));
    const index = new MemoryIndex(chunkBytes, sizes[launch]!, table, pre!, post!);
    index.check();
    return index;
  });
}

function fail(problem: string): never {
  throw new FormatError(INDEX, problem);
}

function column(name: string, data: unknown, record: number): DataView {
  if (!(data instanceof Uint8Array)) fail(`${name} is not there`);
  if (data.length % record) fail(`${name}: not a whole number of records`);
  return new DataView(data.buffer, data.byteOffset, data.byteLength);
}

/** Without gaps or overlaps nothing can hide in memory/chunks, and no byte is counted twice. */
function checkTable(table: DataView, chunkBytes: number, chunkFiles: number[]): void {
  const size = chunkFiles.reduce((sum, each) => sum + each, 0);
  let [end, file, endOfFile] = [0, 0, chunkFiles[0]!];
  for (let at = 0; at < table.byteLength; at += ROW) {
    const offset = table.getUint32(at + 36, true) * 2 ** 32 + table.getUint32(at + 32, true);
    const [stored, raw, encoding] = [40, 44, 48].map((field) => table.getUint32(at + field, true)) as [number, number, number];
    if (raw === 0 || raw > chunkBytes) fail(`table record ${at / ROW}: raw size is not 1 to ${chunkBytes}`);
    if (encoding > 1) fail(`table record ${at / ROW}: unknown encoding`);
    if (encoding ? stored === 0 || stored >= raw : stored !== raw) {
      fail(`table record ${at / ROW}: stored size does not fit the encoding`);
    }
    if (offset !== end) fail(`table record ${at / ROW}: chunks are not contiguous`);
    while (offset >= endOfFile && file + 1 < chunkFiles.length) endOfFile += chunkFiles[++file]!;
    end += stored;
    if (end > endOfFile && end <= size) fail(`table record ${at / ROW}: the chunk is in two files`);
  }
  if (end !== size) fail(`the chunks take ${end} bytes, memory/chunks has ${size}`);
}

/** Records (region, chunk, row) in ascending order; found by bisection, so that none becomes an object. */
class Entries {
  readonly name: State;
  readonly #data: DataView;

  constructor(name: State, data: DataView) {
    this.name = name;
    this.#data = data;
  }

  get length(): number {
    return this.#data.byteLength / ENTRY;
  }

  at(number: number): { region: number; chunk: number; row: number } {
    const [region, chunk, row] = [0, 4, 8].map((field) => this.#data.getUint32(number * ENTRY + field, true));
    return { region: region!, chunk: chunk!, row: row! };
  }

  /** The number of the first record that is not before (region, chunk). */
  first(region: number, chunk: number): number {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const found = this.at(middle);
      if (found.region < region || (found.region === region && found.chunk < chunk)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  row(region: number, chunk: number): number | undefined {
    const number = this.first(region, chunk);
    const found = number < this.length ? this.at(number) : undefined;
    return found?.region === region && found.chunk === chunk ? found.row : undefined;
  }
}

export class MemoryIndex {
  readonly chunkBytes: number;
  readonly #sizes: number[];
  readonly #table: DataView;
  readonly #entries: Record<State, Entries>;

  constructor(chunkBytes: number, sizes: number[], table: DataView, pre: Entries, post: Entries) {
    this.chunkBytes = chunkBytes;
    this.#sizes = sizes;
    this.#table = table;
    this.#entries = { pre, post };
  }

  get rows(): number {
    return this.#table.byteLength / ROW;
  }

  /** `number` counts from 1. */
  row(number: number): Row {
    const [table, at] = [this.#table, (number - 1) * ROW];
    return {
      digest: new Uint8Array(table.buffer as ArrayBuffer, table.byteOffset + at, 32),
      offset: table.getUint32(at + 36, true) * 2 ** 32 + table.getUint32(at + 32, true),
      stored: table.getUint32(at + 40, true),
      raw: table.getUint32(at + 44, true),
      isPacked: table.getUint32(at + 48, true) === 1,
    };
  }

  /** The row of a chunk of a region before or after the launch; 0 if it is all zero. */
  rowOf(state: State, region: number, chunk: number): number {
    const changed = state === "post" ? this.#entries.post.row(region, chunk) : undefined;
    return changed ?? this.#entries.pre.row(region, chunk) ?? ZERO_ROW;
  }

  /** The chunks that are listed under a state: in `post` those that the launch changed. */
  *listed(state: State, region: number): Generator<{ chunk: number; row: number }> {
    const entries = this.#entries[state];
    for (let number = entries.first(region, 0); number < entries.length; number++) {
      const found = entries.at(number);
      if (found.region !== region) return;
      yield found;
    }
  }

  /** Bytes of the listed chunks that are not zero, each time they are listed. */
  rawBytes(state: State): number {
    let sum = 0;
    const entries = this.#entries[state];
    for (let number = 0; number < entries.length; number++) {
      const { row } = entries.at(number);
      if (row !== ZERO_ROW) sum += this.row(row).raw;
    }
    return sum;
  }

  check(): void {
    for (const state of STATES) this.#checkEntries(state, this.#entries[state]);
    for (let number = 0; number < this.#entries.post.length; number++) {
      const { region, chunk, row } = this.#entries.post.at(number);
      if ((this.#entries.pre.row(region, chunk) ?? ZERO_ROW) === row) fail(`post record ${number}: the chunk did not change`);
    }
  }

  #checkEntries(state: State, entries: Entries): void {
    let before = -1;
    for (let number = 0; number < entries.length; number++) {
      const { region, chunk, row } = entries.at(number);
      const wrong = (problem: string) => fail(`${state} record ${number}: ${problem}`);
      const size = this.#sizes[region];
      if (size === undefined) wrong(`region is not below ${this.#sizes.length}`);
      const key = region * 2 ** 32 + chunk;
      if (key <= before) wrong("records are not in strictly ascending order");
      before = key;
      const left = size! - chunk * this.chunkBytes;
      if (left <= 0) wrong("chunk is beyond its region");
      if (row > this.rows) wrong(`row is not among the table's ${this.rows}`);
      if (row === ZERO_ROW && state === "pre") wrong("a zero chunk; those are implied");
      if (row !== ZERO_ROW && this.row(row).raw !== Math.min(left, this.chunkBytes)) {
        wrong("the chunk's raw size does not fit its place");
      }
    }
  }
}
