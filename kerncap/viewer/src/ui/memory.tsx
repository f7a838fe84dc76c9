// The regions of memory to scale: data and changes, the views in them, and the addresses that lead to them.
import { useEffect, useRef } from "preact/hooks";
import type { Pointer, Strip } from "../work/memory_map.ts";
import { Pending, Table, useLoaded } from "./kit.tsx";
import { reader } from "./reader.ts";
import { counted, sizeText } from "./text.ts";

const KINDS = ["zero", "data", "changed"];

export function MemoryTab({ id, launch }: { id: number; launch: number }) {
  const { value, problem } = useLoaded(() => reader.strips(id, launch), [id, launch]);
  const { value: words, problem: unread } = useLoaded(() => reader.pointers(id, launch), [id, launch]);
  if (!value) return <Pending problem={problem} />;
  return (
    <>
      <p class="legend">{KINDS.map((kind) => <span key={kind}><i class={kind} aria-hidden="true" /> {kind === "changed" ? "changed by the launch" : kind}</span>)}</p>
      {value.strips.map((strip) => <Region key={strip.number} strip={strip} pointers={(words?.found ?? []).filter((each) => each.to === strip.number)} />)}
      {value.leftOut > 0 && <p>{counted(value.leftOut)} more regions are not shown, the smallest ones.</p>}
      {unread && <p role="alert" class="problem">{unread}</p>}
      {words && words.found.length > 0 && (
        <Table
          caption={`Words of memory that are addresses in another region${words.isWhole ? "" : " (not all of the memory was searched)"}`}
          head={["word", "leads to"]}
          rows={words.found.map(({ from, at, to, offset }) => [`region ${from} + ${counted(at)}`, `region ${to} + ${counted(offset)}`])}
        />
      )}
      {words && !words.found.length && <p class="soft">No word {words.isWhole ? "" : "in the part that was searched "}is an address in another region.</p>}
    </>
  );
}

function Region({ strip, pointers }: { strip: Strip; pointers: Pointer[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const style = getComputedStyle(canvas.current!);
    [canvas.current!.width, canvas.current!.height] = [Math.max(1, strip.cells.length), 1];
    const context = canvas.current!.getContext("2d")!;
    strip.cells.forEach((kind, cell) => {
      context.fillStyle = style.getPropertyValue(`--${KINDS[kind]}`);
      context.fillRect(cell, 0, 1, 1);
    });
  }, [strip]);
  const share = (bytes: number) => `${(bytes / Math.max(1, strip.size)) * 100}%`;
  return (
    <section class="region" aria-label={`Region ${strip.number}`}>
      <h3>Region {strip.number}: {sizeText(strip.size)} <span class="soft">{strip.kind} at <code>{strip.base}</code>{strip.why && `, ${strip.why}`}</span></h3>
      <canvas ref={canvas} role="img" aria-label={`${counted(strip.changed)} of ${counted(strip.chunks)} chunks changed`} />
      <ul class="views">
        {strip.views.map(({ name, first, last }) => (
          <li key={`${name} ${first}`}>
            <span class="bar" aria-hidden="true" style={{ marginLeft: share(first), width: share(last - first) }} />
            <code>{name}</code> bytes {counted(first)} to {counted(last)}
          </li>
        ))}
        {pointers.slice(0, 8).map(({ from, at, offset }) => (
          <li key={`${from} ${at}`}>
            <span class="tick" aria-hidden="true" style={{ marginLeft: share(offset) }} />
            address of byte {counted(offset)} in region {from} + {counted(at)}
          </li>
        ))}
      </ul>
    </section>
  );
}
