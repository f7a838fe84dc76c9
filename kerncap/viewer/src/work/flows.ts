// Which launches of a range may read what others changed: by arguments and by chunks that changed.
import type { Launch } from "../format/reproducer.ts";
import { viewBounds } from "../format/rules.ts";

export interface Flow {
  from: number;
  to: number;
}

type Span = [first: bigint, end: bigint];

export function flows(launches: readonly Launch[]): Flow[] {
  const changed = launches.map(changedSpans);
  return launches.flatMap((launch, to) => {
    const reads = launch.manifest.views.flatMap((view): Span[] => {
      const bounds = viewBounds(view);
      const base = BigInt(launch.manifest.regions[view.region]!.base);
      return bounds ? [[base + bounds[0], base + bounds[1]]] : [];
    });
    const from = new Set<number>();
    for (const span of reads) {
      // What an earlier launch changed is hidden if a later one changed all of the argument's chunks.
      let left: Span[] = [span];
      for (let number = to - 1; number >= 0 && left.length; number--) {
        const rest = left.flatMap((part) => without(part, changed[number]!));
        if (length(rest) < length(left)) from.add(number);
        left = rest;
      }
    }
    return [...from].sort((a, b) => a - b).map((number) => ({ from: number, to }));
  });
}

function changedSpans(launch: Launch): Span[] {
  const found: Span[] = [];
  launch.manifest.regions.forEach((region, number) => {
    for (const { chunk } of launch.index.listed("post", number)) {
      const first = chunk * launch.index.chunkBytes;
      const base = BigInt(region.base);
      const span: Span = [base + BigInt(first), base + BigInt(Math.min(region.size, first + launch.index.chunkBytes))];
      const last = found.at(-1);
      if (last && last[1] === span[0]) last[1] = span[1];
      else found.push(span);
    }
  });
  return found;
}

function without(part: Span, holes: Span[]): Span[] {
  let left: Span[] = [part];
  for (const [first, end] of holes) {
    left = left.flatMap(([a, b]): Span[] => {
      if (end <= a || b <= first) return [[a, b]];
      return ([[a, first], [end, b]] as Span[]).filter(([from, to]) => from < to);
    });
  }
  return left;
}

const length = (spans: Span[]) => spans.reduce((sum, [first, end]) => sum + (end - first), 0n);
