// What a manifest must hold beyond its schema: kerncap/format/validate.py, number_limits.py and textures.py.
import { FormatError } from "./errors.ts";
import type { Manifest, Region, StoredFile, Texture, View } from "./generated/manifest.ts";
import type { RangeManifest } from "./generated/range.ts";
import * as limits from "./limits.ts";
import { CHUNK_FILES, CHUNKS, foldersOf, INDEX, listedProblem, manifestOfLaunch, pathProblem, README } from "./names.ts";

const ADDRESS_LIMIT = 1n << 63n; // also of bytes in a view, and of workgroups in a grid
const ZERO_PAGE = 1n << 21n;
export type Value = Manifest["arguments"][number]["value"];
type Fail = (where: string, problem: string) => never;

/** Addresses and products are beyond what a number can hold. */
const big = (number: number | bigint) => BigInt(number);
const product = (numbers: readonly number[]) => numbers.reduce((all, each) => all * (each > 1 ? big(each) : 1n), 1n);

export function checkRules(manifest: Manifest, file: string): void {
  const fail: Fail = (where, problem) => {
    throw new FormatError(file, `${where}: ${problem}`);
  };
  regions(manifest, fail);
  zeros(manifest, fail);
  manifest.views.forEach((view, number) => checkView(view, manifest.regions, `views.${number}`, fail));
  let left = limits.MAX_VALUES;
  for (const [where, value] of values(manifest)) left = checkValue(value, manifest.views.length, where, 1, left, fail);
  const tuned = manifest.autotune;
  if (tuned && (tuned.chosen ?? -1) >= tuned.configs.length) fail("autotune.chosen", "not one of the configurations");
  launch(manifest, fail);
  textures(manifest, fail);
  ranks(manifest, fail);
  files(manifest, fail);
  build(manifest, fail);
}

export const chunkFiles = (memory: Manifest["memory"]): StoredFile[] => [memory.chunks, ...(memory.more_chunks ?? [])];

/** Every file that a manifest lists, with the part of the manifest that does. */
export function* listedFiles(manifest: Manifest): Generator<[string, StoredFile]> {
  yield ["memory", manifest.memory.index];
  for (const file of chunkFiles(manifest.memory)) yield ["memory", file];
  for (const code of manifest.code ?? []) yield ["code", code.file];
  if (manifest.source) {
    yield ["source", manifest.source.file];
    for (const file of manifest.source.originals ?? []) yield ["source", file];
  }
  for (const file of manifest.files ?? []) yield ["files", file];
}

/** First and one-past-last byte of its region that a view touches; undefined if it is empty. */
export function viewBounds(view: View): [bigint, bigint] | undefined {
  if (view.shape.includes(0)) return undefined;
  let [first, last] = [0n, 0n];
  view.shape.forEach((extent, at) => {
    const reach = big(extent - 1) * big(view.strides[at]!);
    if (reach < 0n) first += reach;
    else last += reach;
  });
  const [offset, size] = [big(view.offset), big(view.itemsize)];
  return [offset + first * size, offset + last * size + size];
}

function regions(manifest: Manifest, fail: Fail): void {
  if (manifest.closure.not_held?.length && manifest.regions.length) {
    fail("closure.not_held", "regions of a launch that can't be held");
  }
  let total = 0;
  manifest.regions.forEach((region, number) => {
    total += region.size;
    const where = `regions.${number}`;
    if ((region.kind === "array") !== Boolean(region.array)) fail(where, "only a region of the kind array has an array");
    if (region.array && arrayBytes(region.array) !== big(region.size)) fail(where, "its array has another size");
    if (big(region.base) + big(region.size) > ADDRESS_LIMIT) fail(where, "ends beyond address 2^63");
    if (total > limits.MAX_REGIONS_BYTES) fail(where, `regions add up to more than ${limits.MAX_REGIONS_BYTES} bytes`);
  });
}

/** Which rank this is, and whose its windows are. */
function ranks({ collective, regions }: Manifest, fail: Fail): void {
  if (collective && collective.rank >= collective.ranks) fail("collective", `rank ${collective.rank} of only ${collective.ranks}`);
  regions.forEach(({ kind, owner, size }, number) => {
    if (!owner) return;
    const where = `regions.${number}.owner`;
    if (!collective || kind !== "device") fail(where, "only device memory of a collective launch has an owner");
    if (owner.rank >= collective!.ranks || owner.rank === collective!.rank) fail(where, `rank ${owner.rank} is not another one`);
    if (big(owner.base) + big(size) > ADDRESS_LIMIT) fail(where, "it ends beyond address 2^63 there");
  });
}

/** Ranges of zeros are whole pages, and share none with a region or each other. */
function zeros(manifest: Manifest, fail: Fail): void {
  const spans = manifest.regions.filter((each) => each.size).map((each) => ({ ...span(each), isZeros: false }));
  let total = 0n;
  for (const zero of manifest.zeros ?? []) {
    const { first, end } = span(zero);
    if (first % ZERO_PAGE || (end - first) % ZERO_PAGE || end === first || end > ADDRESS_LIMIT) fail("zeros", "not whole pages");
    spans.push({ first, end, isZeros: true });
    total += end - first;
  }
  if (total > big(limits.MAX_REGIONS_BYTES)) fail("zeros", `they add up to more than ${limits.MAX_REGIONS_BYTES} bytes`);
  const order = (a: bigint, b: bigint) => (a < b ? -1 : a > b ? 1 : 0);
  spans.sort((a, b) => order(a.first, b.first) || order(a.end, b.end) || Number(a.isZeros) - Number(b.isZeros));
  let [reached, zerosEnd] = [0n, 0n];
  for (const { first, end, isZeros } of spans) {
    if (first < (isZeros ? reached : zerosEnd)) fail("zeros", "they share a page with other memory");
    if (end > reached) reached = end;
    if (isZeros && end > zerosEnd) zerosEnd = end;
  }
}

const span = (of: { base: number; size: number }) => ({ first: big(of.base), end: big(of.base) + big(of.size) });

function checkView(view: View, all: Region[], where: string, fail: Fail): void {
  const region = all[view.region];
  if (!region) fail(where, `region ${view.region} of only ${all.length}`);
  if (view.shape.length !== view.strides.length) fail(where, "as many strides as dimensions are needed");
  if (product(view.shape) * big(view.itemsize) >= ADDRESS_LIMIT) fail(where, "2^63 bytes or more");
  const size = big(region!.size);
  const bounds = viewBounds(view);
  if (!bounds && big(view.offset) > size) fail(where, "its offset is beyond its region");
  if (bounds && (bounds[0] < 0n || bounds[1] > size)) fail(where, `it reaches beyond region ${view.region}`);
  if (!view.storage) return;
  const [first, end] = [big(view.storage[0]!), big(view.storage[0]!) + big(view.storage[1]!)];
  if (end > size) fail(where, "its storage reaches beyond its region");
  if (bounds && (bounds[0] < first || bounds[1] > end)) fail(where, "it reaches beyond its storage");
}

function* values(manifest: Manifest): Generator<[string, Value]> {
  const all = function* (where: string, map: Record<string, Value> | undefined): Generator<[string, Value]> {
    for (const [name, value] of Object.entries(map ?? {})) yield [`${where}.${name}`, value];
  };
  for (const [number, argument] of manifest.arguments.entries()) yield [`arguments.${number}`, argument.value];
  yield* all("launch.options", manifest.launch.options);
  yield* all("compiled", manifest.compiled);
  yield* all("launch.grid_source", manifest.launch.grid_source?.bindings);
  for (const [number, config] of (manifest.autotune?.configs ?? []).entries()) {
    yield* all(`autotune.configs.${number}`, config.kwargs);
    yield* all(`autotune.configs.${number}`, config.options);
    yield* all(`autotune.configs.${number}`, config.pre_hook?.bindings);
  }
}

/** `left`: how many values there may be; gives how many more. */
function checkValue(value: Value, views: number, where: string, depth: number, left: number, fail: Fail): number {
  left--;
  if (left < 0) fail(where, `more than ${limits.MAX_VALUES} values`);
  if (depth > limits.MAX_VALUE_DEPTH) fail(where, `values nested deeper than ${limits.MAX_VALUE_DEPTH}`);
  if (value.kind === "sequence") {
    const { fields, items } = value;
    if (fields && fields.length !== items.length) fail(where, `${fields.length} field names for ${items.length} items`);
    if (value.type === "namedtuple") namedTuple(fields, value.type_name, where, fail);
    for (const item of items) left = checkValue(item, views, where, depth + 1, left, fail);
  } else if (value.kind === "float") {
    if (!/(inf|nan)$/.test(value.value) && !Number.isFinite(hexFloat(value.value))) fail(where, "not a 64-bit float");
  } else if (value.kind === "tensor" || value.kind === "descriptor") {
    if (value.view >= views) fail(where, `view ${value.view} of only ${views}`);
    if (value.kind === "tensor") return left;
    const ranks = new Set([value.shape, value.strides, value.block_shape].map((each) => each.length));
    if (ranks.size > 1) fail(where, "a descriptor's shapes differ in rank");
    for (const shape of [value.shape, value.block_shape]) if (product(shape) >= ADDRESS_LIMIT) fail(where, "2^63 elements or more");
  }
  return left;
}

const KEYWORDS = new Set(
  ("False None True and as assert async await break class continue def del elif else except finally for from global if " +
    "import in is lambda nonlocal not or pass raise return try while with yield").split(" "),
);
const isName = (text: string) => /^[\p{XIDS}_]\p{XIDC}*$/u.test(text) && !KEYWORDS.has(text);

function namedTuple(fields: string[] | null | undefined, typeName: string | null | undefined, where: string, fail: Fail): void {
  if (!fields || !typeName || !isName(typeName)) fail(where, "a named tuple without the names of its type and fields");
  if (new Set(fields).size !== fields!.length) fail(where, "a field is named twice");
  const isField = (name: string, at: number) => name === `_${at}` || (!name.startsWith("_") && isName(name));
  if (!fields!.every(isField)) fail(where, "a name that a named tuple can't have");
}

/** The value of C99 hexadecimal text; inf or nan for those words. */
export function hexFloat(text: string): number {
  const found = /^(-?)0x([01])\.?([0-9a-f]*)p([+-]\d+)$/.exec(text);
  if (!found) return text.endsWith("nan") ? NaN : text.startsWith("-") ? -Infinity : Infinity;
  const [, sign, first, digits] = found as unknown as [string, string, string, string];
  let mantissa = Number(first);
  [...digits].forEach((digit, at) => (mantissa += parseInt(digit, 16) * 16 ** -(at + 1)));
  const exponent = Number(found[4]);
  const half = Math.trunc(exponent / 2); // in two steps: 2^1023 is the last power that is finite
  const value = mantissa === 0 ? 0 : mantissa * 2 ** half * 2 ** (exponent - half);
  return sign ? -value : value;
}

function launch(manifest: Manifest, fail: Fail): void {
  const { grid, block, cluster, mode, parameters, dispatch } = manifest.launch;
  if (product(grid) >= ADDRESS_LIMIT) fail("launch.grid", "2^63 workgroups or more");
  for (const [name, numbers] of [["block", block], ["cluster", cluster]] as const) {
    if (numbers && product(numbers) > big(limits.MAX_THREADS)) fail(`launch.${name}`, `more than ${limits.MAX_THREADS}`);
  }
  if (dispatch) {
    if (!block || block.includes(0)) fail("launch.dispatch", "a dispatch without the size of its workgroups");
    dispatch.work_items.forEach((items, axis) => {
      if (Math.ceil(items / block![axis]!) !== grid[axis]) fail("launch.dispatch", "its work-items are not those of the grid");
    });
  }
  if (mode === "native" && !(block && parameters)) fail("launch.mode", "a native launch without block or parameters");
  let end = 0;
  for (const [offset, length] of (parameters?.layout ?? []) as [number, number][]) {
    if (offset < end || offset + length > parameters!.bytes.length / 2) fail("launch.parameters.layout", "beyond the buffer, or out of order");
    end = offset + length;
  }
}

const CHANNEL_BYTES = new Map<number, number>(
  [[1, [0x01, 0x08]], [2, [0x02, 0x09, 0x10]], [4, [0x03, 0x0a, 0x20]],
   [1, [0xc0, 0xc1, 0xc2, 0xc6, 0xc7, 0xc8]], [2, [0xc3, 0xc4, 0xc5, 0xc9, 0xca, 0xcb]]].flatMap(
    ([bytes, formats]) => (formats as number[]).map((format) => [format, bytes as number] as [number, number]),
  ),
);
const LAYERED_OR_CUBEMAP = 1 | 4;

/** Bytes of all levels of an array; undefined for a format that has no bytes of its own for each element. */
function arrayBytes(array: NonNullable<Region["array"]>): bigint | undefined {
  const channel = CHANNEL_BYTES.get(array.format);
  if (channel === undefined) return undefined;
  let elements = 0n;
  const at = (size: number | undefined, level: number) => (size ? Math.max(1, Math.floor(size / 2 ** level)) : 0);
  for (let level = 0; level < (array.levels ?? 1); level++) {
    const depth = (array.flags ?? 0) & LAYERED_OR_CUBEMAP ? (array.depth ?? 0) : at(array.depth, level);
    elements += big(at(array.width, level)) * product([at(array.height, level), depth]);
  }
  return elements * big(array.channels * channel);
}

function textures(manifest: Manifest, fail: Fail): void {
  const seen = new Set<string>();
  for (const [number, texture] of (manifest.launch.textures ?? []).entries()) {
    const where = `launch.textures.${number}`;
    if (manifest.device.kind !== "cuda" || manifest.launch.mode !== "native") fail(where, "only a native launch of CUDA has textures");
    const key = `${texture.kind} ${texture.handle}`;
    if (seen.has(key)) fail(where, `${key} is listed twice`);
    seen.add(key);
    const problem = textureProblem(texture, manifest.regions);
    if (problem) fail(where, problem);
  }
}

function textureProblem(texture: Texture, all: Region[]): string | undefined {
  if ((texture.kind === "texture") !== Boolean(texture.sampler)) return "every texture has a sampler, and no surface has one";
  if (texture.resource === "array" || texture.resource === "mipmap") {
    const array = all[texture.region ?? -1]?.array;
    if (!array) return "its region is not an array";
    return (texture.level ?? 0) >= (array.levels ?? 1) ? "it has no such level" : undefined;
  }
  if (texture.kind === "surface") return "a surface is on an array";
  const size = texture.resource === "linear" ? big(texture.width ?? 0) : big(texture.pitch ?? 0) * big(texture.height ?? 0);
  const first = big(texture.address ?? 0);
  const isIn = (region: Region) => region.kind !== "array" && span(region).first <= first && first + size <= span(region).end;
  return all.some(isIn) ? undefined : "its memory is in no region";
}

function files(manifest: Manifest, fail: Fail): void {
  const { index, digest_of: digestOf } = manifest.memory;
  if (index.path !== INDEX || index.size > limits.MAX_INDEX_BYTES) fail("memory.index", "not there, or too large");
  let left = limits.MAX_CHUNKS_BYTES;
  for (const [number, { path, size }] of chunkFiles(manifest.memory).entries()) {
    if (path !== CHUNK_FILES[number] || size > left) fail("memory.chunks", "not there, or too large");
    if (number && !digestOf) fail("memory.more_chunks", "files of chunks whose digests are not of payloads");
    left -= size;
  }
  const known = new Map<string, StoredFile>();
  for (const [group, file] of listedFiles(manifest)) {
    const problem = listedProblem(file.path, group);
    if (problem) fail(group, problem);
    const other = known.get(file.path) ?? file;
    if (other.size !== file.size || other.sha256 !== file.sha256) fail(group, `${file.path} is listed twice with different content`);
    known.set(file.path, file);
    if (group !== "memory" && file.size > limits.MAX_FILE_BYTES) fail(group, `${file.path} is larger than ${limits.MAX_FILE_BYTES} bytes`);
  }
  for (const name of known.keys()) if (foldersOf(name).some((folder) => known.has(folder))) fail("files", `${name} is below another file`);
}

function build(manifest: Manifest, fail: Fail): void {
  const source = manifest.source;
  if (!source?.build) return;
  const listed = new Set([source.file.path, ...(source.originals ?? []).map((file) => file.path)]);
  for (const path of [source.build.unit, ...Object.values(source.build.headers ?? {})]) {
    if (!listed.has(path)) fail("source.build", `${path} is not a file of the source`);
  }
  for (const folder of source.build.include_dirs ?? []) {
    const problem = folder.stored == null ? undefined : pathProblem(folder.stored);
    if (problem) fail("source.build.include_dirs", problem);
  }
}

export function checkRange(range: RangeManifest, file: string): void {
  const expected: [StoredFile, string][] = [
    [range.memory.index, INDEX],
    [range.memory.chunks, CHUNKS],
    ...range.launches.map((each, number): [StoredFile, string] => [each.manifest, manifestOfLaunch(number)]),
    ...(range.files ?? []).map((each): [StoredFile, string] => [each, README]),
  ];
  for (const [stored, path] of expected) if (stored.path !== path) throw new FormatError(file, `${stored.path}; expected ${path}`);
  const positions = range.launches.map((each) => each.position);
  if (positions.some((each, at) => at > 0 && each <= positions[at - 1]!)) throw new FormatError(file, "launches are not in ascending order");
  if ((range.missing ?? []).some((each) => positions.includes(each.position))) throw new FormatError(file, "a launch is there and missing");
}
