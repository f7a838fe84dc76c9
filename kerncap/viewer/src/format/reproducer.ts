// A reproducer, or a range of them, that was opened: manifests and index are checked, memory is where it was.
import { decodeChecks, type Checks } from "./checks.ts";
import type { Folder } from "./archive.ts";
import type { Data } from "./bytes.ts";
import { ChunkDigest, requireDigest, requireFileDigest, sha256Hex } from "./digests.ts";
import { FormatError } from "./errors.ts";
import type { StoredFile } from "./generated/manifest.ts";
import * as limits from "./limits.ts";
import { decodeManifest, type Manifest, type RangeManifest } from "./manifest.ts";
import { Chunks, readMemory } from "./memory.ts";
import { decodeIndex, STATES, type MemoryIndex, type State } from "./memory_index.ts";
import { CHUNK_FILES, INDEX, isWriteSet, MANIFEST, MANIFEST_DIGEST, otherName } from "./names.ts";
import { chunkFiles, listedFiles } from "./rules.ts";

const SAME_MEMORY = ["index", "chunks"] as const;

/** One launch. `number`: its place in a range, from 0. */
export interface Launch {
  readonly number: number;
  readonly manifest: Manifest;
  readonly manifestSha256: string;
  readonly checks: Checks | undefined;
  readonly index: MemoryIndex;
}

export class Reproducer {
  readonly range: RangeManifest | undefined;
  readonly manifestSha256: string;
  readonly launches: Launch[] = [];
  readonly #folder: Folder;
  readonly #listed: Map<string, StoredFile>; // by the name in the folder
  readonly #chunks: Chunks;

  private constructor(
    folder: Folder, manifestSha256: string, range: RangeManifest | undefined, listed: Map<string, StoredFile>, chunks: Chunks,
  ) {
    this.#folder = folder;
    this.manifestSha256 = manifestSha256;
    this.range = range;
    this.#listed = listed;
    this.#chunks = chunks;
  }

  static async open(folder: Folder): Promise<Reproducer> {
    const data = await readWhole(folder, MANIFEST, limits.MAX_MANIFEST_BYTES);
    const manifest = decodeManifest(data, MANIFEST);
    const digest = await sha256Hex(data);
    const line = new TextDecoder().decode(await readWhole(folder, MANIFEST_DIGEST, limits.MAX_DIGEST_FILE_BYTES));
    if (line !== `${digest}  ${MANIFEST}\n`) throw new FormatError(MANIFEST, `damaged: ${MANIFEST_DIGEST} says something else`);
    const range = manifest.format === "kerncap-range" ? manifest : undefined;
    const launches = range ? await launchesOf(folder, range) : [{ manifest: manifest as Manifest, digest }];

    const listed = new Map<string, StoredFile>(
      (range ? [range.memory.index, range.memory.chunks, ...range.launches.map((one) => one.manifest), ...(range.files ?? [])] : [])
        .map((file) => [file.path, file]),
    );
    for (const launch of launches) {
      for (const [, file] of listedFiles(launch.manifest)) {
        const name = placeOf(file, range !== undefined);
        if (!listed.has(name)) listed.set(name, file);
      }
    }
    const other = otherName(folder.files.keys(), folder.folders, new Set(listed.keys()), range !== undefined);
    if (other !== undefined) throw new FormatError(other, "not a file of a reproducer: its manifest does not list it");
    for (const [name, file] of listed) checkSize(folder, name, file.size);
    checkTotal(folder, [...listed.values()]);

    const memory = manifest.memory;
    const raw = await readWhole(folder, INDEX, limits.MAX_INDEX_BYTES);
    await requireDigest(raw, memory.index.sha256, INDEX);
    const sizes = launches.map((one) => one.manifest.regions.map((region) => region.size));
    const stored = chunkFiles(launches[0]!.manifest.memory); // a range's are those of each launch
    const indices = decodeIndex(raw, range !== undefined, sizes, memory.chunk_bytes, stored.map((file) => file.size));
    const files = await Promise.all(stored.map((file) => folder.files.get(file.path)!.open()));
    const chunks = new Chunks(files, new ChunkDigest(launches[0]!.manifest.memory.digest_of));
    const opened = new Reproducer(folder, digest, range, listed, chunks);
    let checksLeft = limits.MAX_CHECKS_BYTES; // of all launches
    for (const [number, one] of launches.entries()) {
      const index = indices[number]!;
      for (const state of STATES) {
        const [stated, found] = [one.manifest.memory[`${state}_bytes`] ?? 0, index.rawBytes(state)];
        if (stated !== found) throw new FormatError(MANIFEST, `${state}_bytes is ${stated}, the index lists ${found}`);
      }
      const name = range ? `checks-${number}.json` : "checks.json";
      const checks = await readChecks(folder, name, checksLeft, one.digest);
      checksLeft -= folder.files.get(name)?.size ?? 0;
      opened.launches.push({ number, manifest: one.manifest, manifestSha256: one.digest, checks, index });
    }
    return opened;
  }

  /** The bytes of a file that a launch's manifest lists, digest checked. */
  async file(stored: StoredFile): Promise<Data> {
    const name = placeOf(stored, this.range !== undefined);
    return requireDigest(await readWhole(this.#folder, name, limits.MAX_FILE_BYTES), stored.sha256, name);
  }

  read(launch: Launch, state: State, region: number, offset: number, size: number): Promise<Data> {
    return readMemory(this.#chunks, launch.index, state, region, offset, size);
  }

  /** Check the digest of every file and of every chunk; `progress` gets the bytes that were read. */
  async verify(progress: (bytes: number) => void): Promise<void> {
    const memory = this.launches[0]!.manifest.memory;
    const ofPayloads = memory.digest_of != null;
    const digests = chunkFiles(memory).map((file) => file.sha256);
    await this.#chunks.check(this.launches[0]!.index, ofPayloads ? digests : undefined, progress);
    for (const [name, file] of this.#listed) {
      if (CHUNK_FILES.includes(name) && ofPayloads) continue;
      await requireFileDigest(await this.#folder.files.get(name)!.open(), file.sha256, name, progress);
    }
  }
}

async function launchesOf(folder: Folder, range: RangeManifest): Promise<{ manifest: Manifest; digest: string }[]> {
  const found: { manifest: Manifest; digest: string }[] = [];
  let left = limits.MAX_MANIFEST_BYTES;
  const digestOf = range.memory.digest_of ?? "payloads";
  for (const { manifest: stored } of range.launches) {
    checkSize(folder, stored.path, stored.size);
    const data = await requireDigest(await readWhole(folder, stored.path, left), stored.sha256, stored.path);
    left -= data.length;
    const manifest = decodeManifest(data, stored.path);
    if (manifest.format !== "kerncap-reproducer") throw new FormatError(stored.path, "not the manifest of a launch");
    const [own, shared] = [manifest.memory, range.memory];
    const isSame = SAME_MEMORY.every((each) => own[each].size === shared[each].size && own[each].sha256 === shared[each].sha256);
    if (!isSame || own.chunk_bytes !== shared.chunk_bytes || own.digest_of !== digestOf || own.more_chunks?.length) {
      throw new FormatError(stored.path, "its memory is not that of the range");
    }
    const first = (found[0]?.manifest ?? manifest).device;
    if (manifest.device.kind !== first.kind || (manifest.device.ordinal ?? 0) !== (first.ordinal ?? 0)) {
      throw new FormatError(stored.path, "its device is not that of the launches before it");
    }
    found.push({ manifest, digest: stored.sha256 });
  }
  return found;
}

/** The name in the folder: a range keeps each file by its digest. */
function placeOf(file: StoredFile, isRange: boolean): string {
  return !isRange || file.path === INDEX || CHUNK_FILES.includes(file.path) ? file.path : `files/${file.sha256}`;
}

async function readWhole(folder: Folder, name: string, limit: number): Promise<Data> {
  const entry = folder.files.get(name);
  if (!entry) throw new FormatError(name, "the file is missing");
  if (entry.size > limit) throw new FormatError(name, `${entry.size} bytes; at most ${limit} are allowed`);
  return (await entry.open()).read(0, entry.size);
}

async function readChecks(folder: Folder, name: string, limit: number, manifestSha256: string): Promise<Checks | undefined> {
  if (!folder.files.has(name)) return undefined;
  const checks = await decodeChecks(await readWhole(folder, name, limit), name);
  const writeSet = checks.write_set;
  if (folder.packedBytes !== undefined && writeSet) {
    if (!isWriteSet(writeSet.path)) throw new FormatError(name, "it names a write set that can't be one");
    checkSize(folder, writeSet.path, writeSet.size);
  }
  return checks.manifest_sha256 === manifestSha256 ? checks : undefined;
}

function checkSize(folder: Folder, name: string, size: number): void {
  const found = folder.files.get(name)?.size;
  if (found === undefined) throw new FormatError(name, "the file is missing");
  if (found !== size) throw new FormatError(name, `${found} bytes, the manifest says ${size}`);
}

function checkTotal(folder: Folder, files: StoredFile[]): void {
  if (folder.packedBytes === undefined) return;
  const total = files.reduce((sum, file) => sum + file.size, 0);
  if (total <= limits.MOST_TIMES_LARGER * folder.packedBytes + limits.ALWAYS_ALLOWED) return;
  throw new FormatError(folder.where, `${folder.packedBytes} bytes claim to hold ${total}: no reproducer packs so well`);
}
