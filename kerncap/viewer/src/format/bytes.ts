// Files that are read by pieces, wherever they are: none is ever in memory as a whole unless it is small.
import { FormatError } from "./errors.ts";

export type Data = Uint8Array<ArrayBuffer>;

export interface Bytes {
  readonly size: number;
  /** Bytes `from` to `to` (exclusive), all of them. */
  read(from: number, to: number): Promise<Data>;
}

const PIECE = 4 * 2 ** 20;

/** A file or blob of the browser. */
export function ofBlob(blob: Blob): Bytes {
  return {
    size: blob.size,
    read: async (from, to) => whole(new Uint8Array(await blob.slice(from, to).arrayBuffer()), from, to),
  };
}

/** A file that `kerncap view` serves. */
export function ofUrl(url: string, size: number): Bytes {
  return {
    size,
    async read(from, to) {
      if (from === to) return new Uint8Array();
      const answer = await fetch(url, { headers: { Range: `bytes=${from}-${to - 1}` } });
      if (answer.status !== 206) throw new Error(`kerncap view answered ${answer.status}; is it still running?`);
      return whole(new Uint8Array(await answer.arrayBuffer()), from, to);
    },
  };
}

/** A part of another file. */
export function part(of: Bytes, start: number, size: number): Bytes {
  return { size, read: (from, to) => of.read(start + from, start + to) };
}

/** Files one after the other, of which a part is in one. */
export function joined(files: Bytes[]): Bytes {
  const starts = [0];
  for (const file of files) starts.push(starts.at(-1)! + file.size);
  return {
    size: starts.at(-1)!,
    read(from, to) {
      const at = starts.findIndex((start, number) => start <= from && to <= starts[number + 1]!);
      return files[at]!.read(from - starts[at]!, to - starts[at]!);
    },
  };
}

export async function* pieces(of: Bytes): AsyncGenerator<Data> {
  for (let at = 0; at < of.size; at += PIECE) yield await of.read(at, Math.min(of.size, at + PIECE));
}

/** What `packed` (a deflate stream) holds, which must be `size` bytes: one more is not unpacked. */
export async function inflated(packed: Bytes, size: number, where: string): Promise<Bytes> {
  const inflater = new DecompressionStream("deflate-raw");
  const writer = inflater.writable.getWriter();
  const feed = async () => {
    for await (const piece of pieces(packed)) await writer.write(piece);
    await writer.close();
  };
  const feeding = feed().catch(() => undefined); // the reader below fails for the same reason
  const reader = inflater.readable.getReader();
  const parts: Data[] = [];
  let done = 0;
  try {
    for (;;) {
      const { value, done: ended } = await reader.read();
      if (ended) break;
      done += value.length;
      if (done > size) throw new FormatError(where, `longer than the ${size} bytes that it claims`);
      parts.push(value as Data);
    }
  } catch (error) {
    await reader.cancel().catch(() => undefined);
    throw error instanceof FormatError ? error : new FormatError(where, `damaged: ${error}`);
  }
  await feeding;
  if (done !== size) throw new FormatError(where, `shorter than the ${size} bytes that it claims`);
  return ofBlob(new Blob(parts));
}

function whole(data: Data, from: number, to: number): Data {
  if (data.length !== to - from) throw new Error(`the file has changed: ${data.length} bytes instead of ${to - from}`);
  return data;
}
