// The only place that knows which digests a reproducer uses.
import { blake3 } from "@noble/hashes/blake3.js";
import { sha256 as incremental } from "@noble/hashes/sha2.js";
import type { Bytes, Data } from "./bytes.ts";
import { pieces } from "./bytes.ts";
import { FormatError } from "./errors.ts";

/** SHA-256 as bytes. The browser's own is faster, but is only there for pages of this machine or of https. */
export async function sha256(data: Data): Promise<Data> {
  if (globalThis.crypto?.subtle) return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return incremental(data) as Data;
}

export async function sha256Hex(data: Data): Promise<string> {
  return hex(await sha256(data));
}

export async function requireDigest(data: Data, expected: string, where: string): Promise<Data> {
  return require(await sha256Hex(data), expected, where) ?? data;
}

/** Of a file of any size; `progress` gets the bytes that were read. */
export async function requireFileDigest(
  file: Bytes, expected: string, where: string, progress: (bytes: number) => void,
): Promise<void> {
  const digest = incremental.create();
  for await (const piece of pieces(file)) {
    digest.update(piece);
    progress(piece.length);
  }
  require(hex(digest.digest()), expected, where);
}

/** What chunks and payloads have: SHA-256, or BLAKE3 if `digestOf` of the manifest's memory says so. */
export class ChunkDigest {
  readonly name: string;
  readonly of: (data: Data) => Promise<Data>;

  constructor(digestOf: string | null | undefined) {
    const isBlake3 = digestOf === "payloads-blake3";
    this.name = isBlake3 ? "BLAKE3" : "SHA-256";
    this.of = isBlake3 ? async (data) => blake3(data) as Data : sha256;
  }
}

/** SHA-256 of the digest of each part, one after the other. */
export class DigestOfDigests {
  readonly #digest = incremental.create();
  readonly #each: ChunkDigest;

  constructor(each: ChunkDigest) {
    this.#each = each;
  }

  async add(part: Data): Promise<void> {
    this.#digest.update(await this.#each.of(part));
  }

  require(expected: string, where: string): void {
    require(hex(this.#digest.digest()), expected, where);
  }
}

function require(found: string, expected: string, where: string): undefined {
  if (found === expected) return;
  throw new FormatError(where, `damaged: SHA-256 is ${found.slice(0, 16)}…, expected ${expected.slice(0, 16)}…`);
}

export function hex(data: Uint8Array): string {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
