// What is where in memory: which chunks hold data and which changed, the views, and words that are addresses.
import type { State } from "../format/memory_index.ts";
import type { Launch, Reproducer } from "../format/reproducer.ts";
import { viewBounds } from "../format/rules.ts";

const MAX_REGIONS = 200;
const CELLS = 256;
const SCANNED_BYTES = 16 * 2 ** 20; // of all regions, in which addresses are looked for
const MAX_POINTERS = 200;

export interface Strip {
  number: number;
  base: string;
  size: number;
  kind: string;
  why: string;
  cells: Uint8Array; // 0: zeros, 1: data, 2: changed by the launch
  changed: number; // chunks
  chunks: number;
  views: { name: string; first: number; last: number }[]; // bytes of the region
}

export interface Pointer {
  from: number;
  at: number; // byte of the region
  to: number;
  offset: number;
}

export function strips(launch: Launch): { strips: Strip[]; leftOut: number } {
  const { regions, views } = launch.manifest;
  const seen = new Map<number, Strip["views"]>();
  views.forEach((view, number) => {
    const bounds = viewBounds(view);
    if (!bounds) return;
    const one = { name: view.name || `view ${number}`, first: Number(bounds[0]), last: Number(bounds[1]) };
    seen.set(view.region, [...(seen.get(view.region) ?? []), one]);
  });
  const order = regions.map((_, number) => number);
  order.sort((a, b) => Number(!seen.has(a)) - Number(!seen.has(b)) || regions[b]!.size - regions[a]!.size);
  const chosen = order.slice(0, MAX_REGIONS).sort((a, b) => a - b);
  return {
    leftOut: regions.length - chosen.length,
    strips: chosen.map((number) => {
      const region = regions[number]!;
      const chunks = Math.ceil(region.size / launch.index.chunkBytes);
      const cells = new Uint8Array(Math.min(CELLS, chunks));
      const mark = (state: State, value: number) => {
        let count = 0;
        for (const { chunk, row } of launch.index.listed(state, number)) {
          count++;
          const cell = Math.floor((chunk * cells.length) / chunks);
          if (row || value > 1) cells[cell] = Math.max(cells[cell]!, value);
        }
        return count;
      };
      mark("pre", 1);
      const changed = mark("post", 2);
      return {
        number, chunks, cells, changed,
        base: `0x${BigInt(region.base).toString(16)}`,
        size: region.size,
        kind: ["host", "global"].includes(region.kind) ? region.kind : `${region.kind} ${region.device ?? 0}`,
        why: [region.name, region.reason, region.shared, region.owner && `of rank ${region.owner.rank}`].filter(Boolean).join(", "),
        views: (seen.get(number) ?? []).slice(0, 24),
      };
    }),
  };
}

/** Aligned words of memory before the launch that are addresses in another region; the smallest regions first. */
export async function pointers(opened: Reproducer, launch: Launch): Promise<{ found: Pointer[]; isWhole: boolean }> {
  const spans = launch.manifest.regions
    .map((region, number) => ({ number, first: BigInt(region.base), end: BigInt(region.base) + BigInt(region.size), kind: region.kind }))
    .filter((span) => span.kind !== "array" && span.end > span.first)
    .sort((a, b) => (a.first < b.first ? -1 : 1));
  const found: Pointer[] = [];
  let left = SCANNED_BYTES;
  const bySize = [...spans].sort((a, b) => (a.end - a.first < b.end - b.first ? -1 : 1));
  for (const span of bySize) {
    const size = Number(span.end - span.first);
    if (size > left) return { found, isWhole: false };
    left -= size;
    const data = await opened.read(launch, "pre", span.number, 0, size);
    const words = new BigUint64Array(data.buffer, 0, Math.floor(size / 8));
    for (const [at, word] of words.entries()) {
      if (word < spans[0]!.first) continue;
      const target = spans.find((other) => other.first <= word && word < other.end && other.number !== span.number);
      if (!target) continue;
      if (found.length === MAX_POINTERS) return { found, isWhole: false };
      found.push({ from: span.number, at: at * 8, to: target.number, offset: Number(word - target.first) });
    }
  }
  return { found, isWhole: true };
}
