// Memory of a launch: chunks are read when they are asked for, and each is checked before it is used.
import { decompress } from "fzstd";
import { joined, type Bytes, type Data } from "./bytes.ts";
import { type ChunkDigest, DigestOfDigests, hex } from "./digests.ts";
import { FormatError } from "./errors.ts";
import type { MemoryIndex, Row, State } from "./memory_index.ts";
import { CHUNK_FILES, CHUNKS } from "./names.ts";

const KEPT_BYTES = 96 * 2 ** 20; // of chunks that were read last

/** The files of chunks of a reproducer or of a range. */
export class Chunks {
  readonly #files: Bytes[];
  readonly #file: Bytes;
  readonly #digest: ChunkDigest;
  readonly #kept = new Map<number, Promise<Data>>();
  #bytes = 0;

  constructor(files: Bytes[], digest: ChunkDigest) {
    this.#files = files;
    this.#file = joined(files);
    this.#digest = digest;
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
    const read = this.#file.read(row.offset, row.offset + row.stored).then((payload) => this.#unpacked(payload, row, number));
    this.#kept.set(number, read);
    this.#bytes += row.raw;
    for (const old of this.#kept.keys()) {
      if (this.#bytes <= KEPT_BYTES || old === number) break;
      this.#kept.delete(old);
      this.#bytes -= index.row(old).raw;
    }
    return read;
  }

  /** Check every chunk and `digests` of each file's payloads, if they are. `progress` gets the bytes that were read. */
  async check(index: MemoryIndex, digests: string[] | undefined, progress: (bytes: number) => void): Promise<void> {
    let [number, end] = [1, 0];
    for (const [at, file] of this.#files.entries()) {
      const all = new DigestOfDigests(this.#digest);
      end += file.size;
      for (; number <= index.rows && index.row(number).offset < end; number++) {
        const row = index.row(number);
        const payload = await this.#file.read(row.offset, row.offset + row.stored);
        if (digests) await all.add(payload);
        await this.#unpacked(payload, row, number);
        progress(row.stored);
      }
      if (digests) all.require(digests[at]!, CHUNK_FILES[at]!);
    }
  }

  async #unpacked(payload: Data, row: Row, number: number): Promise<Data> {
    const raw = row.isPacked ? unpackFrame(payload, row.raw, number) : payload;
    if (hex(await this.#digest.of(raw)) !== hex(row.digest)) {
      throw new FormatError(CHUNKS, `chunk ${number} is damaged: its ${this.#digest.name} is another one`);
    }
    return raw;
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
