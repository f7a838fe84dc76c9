// A packed reproducer: the directory of a zip file, read as strictly as kerncap/format/archive/ does. No library
// is strict about it: where two programs could read two things, this reads nothing.
// Source: APPNOTE.TXT 6.3.10, sections 4.3.7 and 4.3.12 to 4.3.16.
import type { Bytes, Data } from "./bytes.ts";
import { inflated, part } from "./bytes.ts";
import { FormatError } from "./errors.ts";
import * as limits from "./limits.ts";
import { MANIFEST, pathProblem } from "./names.ts";

/** The files of a reproducer by their names in it, and its folders. */
export interface Folder {
  readonly where: string;
  readonly files: ReadonlyMap<string, { size: number; open(): Promise<Bytes> }>;
  readonly folders: ReadonlySet<string>;
  readonly packedBytes?: number; // of the zip file
}

interface Entry {
  name: string;
  raw: Data; // the name's bytes
  method: number;
  packed: number;
  size: number;
  offset: number;
}

const [LOCAL, CENTRAL, END, END64, LOCATOR64] = [30, 46, 22, 56, 20];
const STORED = 0;
const DEFLATED = 8;
const NOT_READ = 0x1 | 0x20 | 0x40; // encrypted, patched
const IN_UTF8 = 0x800;
const NEWEST = 63; // the version of the format that a reader needs
const view = (data: Data) => new DataView(data.buffer, data.byteOffset, data.byteLength);
const big = (from: DataView, at: number) => Number(from.getBigUint64(at, true));

export async function openArchive(file: Bytes, where: string): Promise<Folder> {
  const fail = (problem: string): never => {
    throw new FormatError(where, problem);
  };
  const { at, count, length, offset } = await ends(file, fail);
  if (count > limits.MAX_FOLDER_ENTRIES) fail(`${count} entries; a reproducer has at most ${limits.MAX_FOLDER_ENTRIES}`);
  if (length > Math.min(file.size, limits.MAX_DIRECTORY_BYTES)) fail(`a directory of ${length} bytes`);
  if (offset + length !== at) fail("its directory does not end at the end record");
  const found = entries(await file.read(offset, at), count, file.size, fail);
  const isFolder = (one: Entry) => one.name.endsWith("/");
  const files = found.filter((one) => !isFolder(one)).sort((a, b) => a.offset - b.offset);
  if (new Set(files.map((one) => one.name.toLowerCase())).size !== files.length) fail("a file is listed twice");
  let end = 0;
  for (const one of files) {
    if (one.offset < end) fail(`${one.name} overlaps another file`);
    end = one.offset + LOCAL + one.packed;
  }
  if (end > offset) fail("truncated: a file ends beyond its end");

  const tops = files.filter((one) => one.name.split("/").at(-1) === MANIFEST && one.name.split("/").length < 3);
  if (!tops.length) fail(`no reproducer: there is no ${MANIFEST} in it`);
  if (tops.length > 1) fail(`${tops.length} reproducers in one archive; expected one`);
  const prefix = tops[0]!.name.slice(0, -MANIFEST.length);
  const below = (name: string) =>
    name.startsWith(prefix) ? name.slice(prefix.length) : fail(`${name}: not in the folder of the reproducer`);
  return {
    where,
    packedBytes: file.size,
    files: new Map(
      files.map((one) => [below(one.name), { size: one.size, open: () => content(file, one, offset, where) }]),
    ),
    folders: new Set(found.filter((one) => isFolder(one) && one.name !== prefix).map((one) => below(one.name).slice(0, -1))),
  };
}

/** Where the end records begin; entries, bytes and place of the directory. */
async function ends(file: Bytes, fail: (problem: string) => never) {
  const tail = await file.read(Math.max(0, file.size - END - 0xffff), file.size);
  let found = tail.length - END;
  const isEnd = (at: number) => tail[at] === 0x50 && tail[at + 1] === 0x4b && tail[at + 2] === 5 && tail[at + 3] === 6;
  while (found >= 0 && !isEnd(found)) found--;
  if (found < 0) fail("not a zip file: it has no directory");
  const end = view(tail.subarray(found));
  if (found + END + end.getUint16(20, true) !== tail.length) fail("something follows its end record");
  const short = { count: end.getUint16(10, true), length: end.getUint32(12, true), offset: end.getUint32(16, true) };
  if (end.getUint16(4, true) || end.getUint16(6, true) || end.getUint16(8, true) !== short.count) {
    fail("one part of several archives");
  }
  const at = file.size - tail.length + found;
  if (at < LOCATOR64) return { at, ...short };
  const locator = view(await file.read(at - LOCATOR64, at));
  if (locator.getUint32(0, true) !== 0x07064b50) return { at, ...short };

  const place = at - LOCATOR64 - END64;
  if (place < 0 || big(locator, 8) !== place || locator.getUint32(4, true) || locator.getUint32(16, true) > 1) {
    fail("its 64-bit end record is elsewhere");
  }
  const end64 = view(await file.read(place, place + END64));
  const long = { count: big(end64, 32), length: big(end64, 40), offset: big(end64, 48) };
  const whole = end64.getUint32(0, true) === 0x06064b50 && big(end64, 4) === END64 - 12;
  if (!whole || end64.getUint32(16, true) || end64.getUint32(20, true) || big(end64, 24) !== long.count) {
    fail("its 64-bit end record is damaged");
  }
  const agree = (wide: number, narrow: number, all: number) => narrow === wide || narrow === all;
  if (
    !agree(long.count, short.count, 0xffff) ||
    !agree(long.length, short.length, 0xffffffff) ||
    !agree(long.offset, short.offset, 0xffffffff)
  ) {
    fail("its two end records differ");
  }
  return { at: place, ...long };
}

function entries(directory: Data, count: number, size: number, fail: (problem: string) => never): Entry[] {
  const found: Entry[] = [];
  let at = 0;
  for (let number = 0; number < count; number++) {
    if (at + CENTRAL > directory.length) fail("its directory has fewer entries than it says");
    const head = view(directory.subarray(at, at + CENTRAL));
    if (head.getUint32(0, true) !== 0x02014b50) fail("its directory has fewer entries than it says");
    const [names, extras] = [head.getUint16(28, true), head.getUint16(30, true)];
    const raw = directory.subarray(at + CENTRAL, at + CENTRAL + names);
    const extra = directory.subarray(at + CENTRAL + names, at + CENTRAL + names + extras);
    at += CENTRAL + names + extras + head.getUint16(32, true);
    if (at > directory.length) fail("its directory has more than it says");
    const one = {
      name: nameOf(raw, head.getUint16(8, true), fail),
      raw,
      method: head.getUint16(10, true),
      packed: head.getUint32(20, true),
      size: head.getUint32(24, true),
      offset: head.getUint32(42, true),
    };
    widen(one, extra, fail);
    const kind = (head.getUint32(38, true) >>> 16) & 0xf000;
    const problem =
      pathProblem(one.name.replace(/\/+$/, "")) ??
      (![0, 0x8000, 0x4000].includes(kind) ? "not a regular file (a link?)" : undefined) ??
      (head.getUint16(8, true) & NOT_READ ? "it is encrypted or patched" : undefined) ??
      (head.getUint8(6) > NEWEST ? "its version is not known" : undefined) ??
      (one.method !== STORED && one.method !== DEFLATED ? "its compression is neither store nor deflate" : undefined) ??
      (one.packed > size ? `it claims ${one.packed} packed bytes in a file of ${size}` : undefined) ??
      (one.method === STORED && one.packed !== one.size ? "its two sizes differ" : undefined);
    if (problem) fail(`${one.name}: ${problem}`);
    found.push(one);
  }
  if (at !== directory.length) fail("its directory has more than it says");
  return found;
}

function nameOf(raw: Data, flags: number, fail: (problem: string) => never): string {
  if (!(flags & IN_UTF8) && raw.some((byte) => byte > 0x7f)) fail("a name that is neither ASCII nor UTF-8");
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
  } catch {
    return fail("a name that is not UTF-8");
  }
}

/** Take sizes and offset out of the 64-bit extra field, in its order, where the short ones say so. */
function widen(one: Entry, extra: Data, fail: (problem: string) => never): void {
  const fields = view(extra);
  for (let at = 0; at + 4 <= extra.length; ) {
    const [id, length] = [fields.getUint16(at, true), fields.getUint16(at + 2, true)];
    if (at + 4 + length > extra.length) fail(`${one.name}: a damaged extra field`);
    if (id === 1) {
      let next = at + 4;
      for (const key of ["size", "packed", "offset"] as const) {
        if (one[key] !== 0xffffffff) continue;
        if (next + 8 > at + 4 + length) fail(`${one.name}: a damaged extra field`);
        one[key] = big(fields, next);
        next += 8;
      }
    }
    at += 4 + length;
  }
}

/** What a file holds, `size` bytes and no more; its own header must agree with the directory. */
async function content(file: Bytes, one: Entry, end: number, where: string): Promise<Bytes> {
  const damaged = (problem: string) => new FormatError(where, `${one.name}: ${problem}`);
  if (one.offset + LOCAL + one.raw.length > end) throw damaged("truncated");
  const local = await file.read(one.offset, one.offset + LOCAL + one.raw.length);
  const head = view(local);
  const sameName = head.getUint16(26, true) === one.raw.length && one.raw.every((byte, at) => local[LOCAL + at] === byte);
  if (head.getUint32(0, true) !== 0x04034b50 || !sameName) throw damaged("its own header says something else");
  const start = one.offset + local.length + head.getUint16(28, true);
  if (start + one.packed > end) throw damaged("truncated");
  const packed = part(file, start, one.packed);
  return one.method === STORED ? packed : inflated(packed, one.size, `${where}: ${one.name}`);
}
