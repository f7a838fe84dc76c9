// A tensor as a picture of bounded size, with its statistics: of a large one an even part is read.
import type { Manifest } from "../format/manifest.ts";
import type { State } from "../format/memory_index.ts";
import type { Launch, Reproducer } from "../format/reproducer.ts";
import { decoder } from "./elements.ts";

type View = Manifest["views"][number];

const CELLS = 192; // across, and down
const SAMPLES = 1024; // rows, and columns, of a view that is read whole
const LARGE_BYTES = 64 * 2 ** 20; // from here on one element a cell is read
const WRAP_RATIO = 24; // wider than this many times its height: wrapped
const BINS = 48;

export interface Picture {
  high: number;
  wide: number;
  rows: number; // of elements
  columns: number;
  isWrapped: boolean;
  pieces: number; // how many matrices the view has
  cells: Float64Array; // the mean of each cell's finite elements, NaN if there is none
  flags: Uint8Array; // 1: an element is NaN or infinite; 2: no element here
  elements: number;
  read: number;
  low: number; // of the finite ones
  high_: number;
  mean: number;
  zeros: number;
  nans: number;
  infinities: number;
  bins: number[];
  note: string | undefined;
}

/** `piece`: a matrix of the last two dimensions, by its number; -1 for all of them below each other. */
export async function picture(
  opened: Reproducer, launch: Launch, view: View, state: State, piece: number,
): Promise<Picture | undefined> {
  const shape = view.shape;
  const elements = shape.reduce((all, extent) => all * extent, 1);
  if (!elements) return undefined;
  const matrix = shape.slice(-2).reduce((all, extent) => all * extent, 1);
  const pieces = elements / matrix;
  const isPiece = piece >= 0 && shape.length > 2;
  const shown = isPiece ? matrix : elements;
  let columns = shape.at(-1) ?? 1;
  let rows = shown / columns;
  const isWrapped = columns > WRAP_RATIO * rows && isContiguous(view) && columns > CELLS;
  if (isWrapped) {
    columns = 2 ** Math.ceil(Math.log2(Math.sqrt(shown) * 1.3));
    rows = Math.ceil(shown / columns);
  }
  const size = launch.manifest.regions[view.region]!.size;
  const most = Math.min(size, shown * view.itemsize) > LARGE_BYTES ? CELLS : SAMPLES;
  const [chosenRows, chosenColumns] = [choose(rows, most), choose(columns, most)];
  const [high, wide] = [Math.min(CELLS, chosenRows.length), Math.min(CELLS, chosenColumns.length)];

  const { decode, note } = decoder(view.dtype, view.itemsize);
  const read = elementReader(opened, launch, view, state, size);
  const columnStride = isWrapped ? 1 : (view.strides.at(-1) ?? 0);
  const values = new Float64Array(chosenRows.length * chosenColumns.length).fill(NaN);
  const isThere = new Uint8Array(values.length);
  const load = async (i: number, j: number) => {
    const [row, column] = [chosenRows[i]!, chosenColumns[j]!];
    if (isWrapped && row * columns + column >= shown) return;
    const start = isWrapped ? row * columns : rowOffset(view, row + (isPiece ? piece * rows : 0));
    const at = view.offset + (start + column * columnStride) * view.itemsize;
    const [data, place] = read.at(at) ?? (await read.load(at));
    const number = i * chosenColumns.length + j;
    values[number] = decode(data, place);
    isThere[number] = 1;
  };
  // Along the memory, so that each chunk is read once.
  if (!isWrapped && Math.abs(columnStride) > Math.abs(view.strides.at(-2) ?? Infinity)) {
    for (let j = 0; j < chosenColumns.length; j++) for (let i = 0; i < chosenRows.length; i++) await load(i, j);
  } else {
    for (let i = 0; i < chosenRows.length; i++) for (let j = 0; j < chosenColumns.length; j++) await load(i, j);
  }
  const found = statistics(values, isThere);
  return {
    ...cells(values, isThere, chosenRows.length, chosenColumns.length, high, wide),
    high, wide, rows, columns, isWrapped, pieces: shape.length > 2 ? pieces : 1, elements: shown, note, ...found,
  };
}

function isContiguous(view: View): boolean {
  let expected = 1;
  for (let at = view.shape.length - 1; at >= 0; at--) {
    if (view.shape[at] !== 1 && view.strides[at] !== expected) return false;
    expected *= view.shape[at]!;
  }
  return true;
}

/** Elements from the view's first one to the first of a row. */
function rowOffset(view: View, row: number): number {
  let offset = 0;
  for (let at = view.shape.length - 2; at >= 0; at--) {
    offset += (row % view.shape[at]!) * view.strides[at]!;
    row = Math.floor(row / view.shape[at]!);
  }
  return offset;
}

function choose(count: number, most: number): number[] {
  const chosen = Math.min(count, most);
  return Array.from({ length: chosen }, (_, at) => Math.floor((at * count) / chosen));
}

/** Elements by their byte in the region: from the chunk that is at hand (`at`), else another one (`load`). */
function elementReader(opened: Reproducer, launch: Launch, view: View, state: State, size: number) {
  const step = launch.index.chunkBytes;
  let [first, data] = [0, new DataView(new ArrayBuffer(0))];
  return {
    at: (byte: number): [DataView, number] | undefined =>
      byte >= first && byte + view.itemsize <= first + data.byteLength ? [data, byte - first] : undefined,
    async load(byte: number): Promise<[DataView, number]> {
      // An element across the edge of two chunks is read with both.
      first = Math.floor(byte / step) * step;
      const last = Math.min(size, Math.max(first + step, byte + view.itemsize));
      const found = await opened.read(launch, state, view.region, first, last - first);
      data = new DataView(found.buffer);
      return [data, byte - first];
    },
  };
}

function cells(values: Float64Array, isThere: Uint8Array, rows: number, columns: number, high: number, wide: number) {
  const [sums, counts, flags] = [new Float64Array(high * wide), new Uint32Array(high * wide), new Uint8Array(high * wide).fill(2)];
  values.forEach((value, number) => {
    if (!isThere[number]) return;
    const cell = Math.floor((Math.floor(number / columns) * high) / rows) * wide + Math.floor(((number % columns) * wide) / columns);
    flags[cell] = flags[cell]! & 1;
    if (!Number.isFinite(value)) flags[cell] = 1;
    else {
      sums[cell]! += value;
      counts[cell]! += 1;
    }
  });
  return { cells: sums.map((sum, cell) => sum / counts[cell]!), flags };
}

function statistics(values: Float64Array, isThere: Uint8Array) {
  let [read, low, top, sum, zeros, nans, infinities, finite] = [0, Infinity, -Infinity, 0, 0, 0, 0, 0];
  values.forEach((value, number) => {
    if (!isThere[number]) return;
    read++;
    if (Number.isNaN(value)) nans++;
    else if (!Number.isFinite(value)) infinities++;
    else {
      finite++;
      sum += value;
      if (value === 0) zeros++;
      if (value < low) low = value;
      if (value > top) top = value;
    }
  });
  const bins = new Array<number>(BINS).fill(0);
  const width = (top - low) / BINS;
  values.forEach((value, number) => {
    if (isThere[number] && Number.isFinite(value)) bins[width > 0 ? Math.min(BINS - 1, Math.floor((value - low) / width)) : 0]! += 1;
  });
  return { read, low, high_: top, mean: sum / finite, zeros, nans, infinities, bins };
}
