// Memory of a launch: chunks are read when they are asked for, and each is checked before it is used.
import { decompress } from "fzstd";
import type { Bytes, Data } from "./bytes.ts";
import { DigestOfDigests, hex, sha256 } from "./digests.ts";
import { FormatError } from "./errors.ts";
import type { MemoryIndex, Row, State } from "./memory_index.ts";
import { CHUNKS } from "./names.ts";

const KEPT_BYTES = 96 * 2 ** 20; // of chunks that were read last

/** memory/chunks of a reproducer or of a range. */
export class Chunks {
  readonly #file: Bytes;
  readonly #kept = new Map<number, Promise<Data>>();
  #bytes = 0;

  constructor(file: Bytes) {
    this.#file = file;
  }

  /** The raw bytes of a row of the index; nobody may change them. */
  read(index: MemoryIndex, number: number): Promise<Data> {
    const found = this.#kept.get(number);
    if (found) {
      this.#kept.delete(number); // the last one that was used is the last one to go
      this.#kept.set(number, found);
      return found;
    }
    const row = index.row(number);
    const read = this.#file.read(row.offset, row.offset + row.stored).then((payload) => unpacked(payload, row, number));
    this.#kept.set(number, read);
    this.#bytes += row.raw;
    for (const old of this.#kept.keys()) {
      if (this.#bytes <= KEPT_BYTES || old === number) break;
      this.#kept.delete(old);
      this.#bytes -= index.row(old).raw;
    }
    return read;
  }

  /** Check every chunk and, if `digest` is of the payloads, that too. `progress` gets the bytes that were read. */
  async check(index: MemoryIndex, digest: string | undefined, progress: (bytes: number) => void): Promise<void> {
    const all = new DigestOfDigests();
    for (let number = 1; number <= index.rows; number++) {
      const row = index.row(number);
      const payload = await this.#file.read(row.offset, row.offset + row.stored);
      if (digest) await all.add(payload);
      await unpacked(payload, row, number);
      progress(row.stored);
    }
    if (digest) all.require(digest, CHUNKS);
  }
}

/** `size` bytes of a region from `offset` on, before (pre) or after (post) the launch. */
export async function readMemory(
  chunks: Chunks, index: MemoryIndex, state: State, region: number, offset: number, size: number,
): Promise<Data> {
  const out = new Uint8Array(size);
  const step = index.chunkBytes;
  const last = Math.ceil((offset + size) / step);
  for (let chunk = Math.floor(offset / step); chunk < last; chunk++) {
    const row = index.rowOf(state, region, chunk);
    if (row === 0) continue;
    const raw = await chunks.read(index, row);
    const at = chunk * step - offset;
    out.set(raw.subarray(Math.max(0, -at), Math.min(raw.length, size - at)), Math.max(0, at));
  }
  return out;
}

async function unpacked(payload: Data, row: Row, number: number): Promise<Data> {
  const raw = row.isPacked ? unpackFrame(payload, row.raw, number) : payload;
  if (hex(await sha256(raw)) !== hex(row.sha256)) {
    throw new FormatError(CHUNKS, `chunk ${number} is damaged: its SHA-256 is another one`);
  }
  return raw;
}

function unpackFrame(payload: Data, size: number, number: number): Data {
  const stated = contentSize(payload);
  if (stated !== size) throw new FormatError(CHUNKS, `chunk ${number} is damaged: its frame holds ${stated} bytes, not ${size}`);
  try {
    // Given its result, the library allocates nothing by what the frame says.
    return decompress(payload, new Uint8Array(size)) as Data;
  } catch (error) {
    throw new FormatError(CHUNKS, `chunk ${number} is damaged: not a zstd frame: ${error}`);
  }
}

/** What a zstd frame says that it holds; undefined if it does not say. Source: RFC 8878, section 3.1.1.1. */
function contentSize(frame: Data): number | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  if (frame.length < 6 || view.getUint32(0, true) !== 0xfd2fb528) return undefined;
  const flags = frame[4]!;
  const [isSingle, dictionary, width] = [flags & 0x20, flags & 3, flags >> 6];
  if (dictionary) return undefined;
  const at = isSingle ? 5 : 6;
  const bytes = width ? 1 << width : isSingle ? 1 : 0;
  if (!bytes || at + bytes > frame.length) return undefined;
  if (bytes === 1) return frame[at];
  if (bytes === 2) return view.getUint16(at, true) + 256;
  return bytes === 4 ? view.getUint32(at, true) : Number(view.getBigUint64(at, true));
}
