// Tensors as pictures, before and after the launch, with their statistics and how the values are spread.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { State } from "../format/memory_index.ts";
import type { Picture } from "../work/picture.ts";
import type { LaunchFacts } from "../work/worker.ts";
import { paint } from "./colour.ts";
import { FactList, Pending, useLoaded } from "./kit.tsx";
import { reader } from "./reader.ts";
import { counted, numberText, shapeText } from "./text.ts";

const APART = 64; // a picture whose values span less than this part of the other's has its own scale
const TITLES = { pre: "Before", post: "After" };

export function ValuesTab({ id, launch }: { id: number; launch: LaunchFacts }) {
  const { views } = launch.manifest;
  const [number, setNumber] = useState(0);
  const [piece, setPiece] = useState(-1);
  const { value, problem } = useLoaded(
    () => Promise.all((["pre", "post"] as const).map((state) => reader.picture(id, launch.number, number, state, piece))),
    [id, launch.number, number, piece],
  );
  const view = views[number];
  if (!view) return <p>The launch has no tensors.</p>;
  const pieces = view.shape.length > 2 ? view.shape.slice(0, -2).reduce((all, extent) => all * extent, 1) : 1;
  return (
    <>
      <div class="controls">
        <label>
          Tensor{" "}
          <select value={number} onChange={(event) => { setNumber(Number(event.currentTarget.value)); setPiece(-1); }}>
            {views.map((each, at) => <option key={at} value={at}>{each.name || `view ${at}`}: {each.dtype}{shapeText(each.shape)}</option>)}
          </select>
        </label>
        {pieces > 1 && (
          <label>
            Matrix{" "}
            <input type="range" min={-1} max={pieces - 1} value={piece} aria-valuetext={piece < 0 ? "all" : String(piece)} onChange={(event) => setPiece(Number(event.currentTarget.value))} />{" "}
            {piece < 0 ? `all ${counted(pieces)}` : shapeText(indexOf(view.shape.slice(0, -2), piece))}
          </label>
        )}
      </div>
      {!value ? <Pending problem={problem} /> : (
        <div class="pictures">
          {value.map((each, at) => each && <Shown key={at} state={(["pre", "post"] as const)[at]!} picture={each} both={value} />)}
          {!value[0] && <p>The tensor has no elements.</p>}
        </div>
      )}
    </>
  );
}

function indexOf(shape: number[], number: number): number[] {
  const found: number[] = [];
  for (const extent of [...shape].reverse()) {
    found.unshift(number % extent);
    number = Math.floor(number / extent);
  }
  return found;
}

function Shown({ state, picture, both }: { state: State; picture: Picture; both: (Picture | undefined)[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [cell, setCell] = useState(0);
  const { wide, high, rows, columns } = picture;
  // One scale for both states, so that equal colours are equal values; but memory that the launch overwrites may hold
  // anything before it, and on its scale the other picture would have one colour.
  const finite = both.filter((each) => each !== undefined && Number.isFinite(each.low)) as Picture[];
  const spans = finite.map((each) => each.high_ - each.low).filter((span) => span > 0);
  const isApart = Math.max(...spans) > APART * Math.min(...spans);
  const scaled = isApart ? [picture] : finite;
  const [low, top] = [Math.min(...scaled.map((each) => each.low)), Math.max(...scaled.map((each) => each.high_))];
  useEffect(() => paint(canvas.current!, wide, high, picture.cells, picture.flags, low, top), [picture, low, top]);

  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide }[event.key];
    if (!step || cell + step < 0 || cell + step >= wide * high) return;
    event.preventDefault();
    setCell(cell + step);
  };
  const point = (event: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const at = (place: number, from: number, length: number, count: number) => Math.min(count - 1, Math.max(0, Math.floor(((place - from) / length) * count)));
    setCell(at(event.clientY, box.top, box.height, high) * wide + at(event.clientX, box.left, box.width, wide));
  };
  const [row, column] = [Math.floor((Math.floor(cell / wide) * rows) / high), Math.floor(((cell % wide) * columns) / wide)];
  const place = picture.isWrapped ? `element ${counted(row * columns + column)}` : `row ${counted(row)}, column ${counted(column)}`;
  const value = picture.flags[cell] === 2 ? "no element" : Number.isNaN(picture.cells[cell]!) ? "no finite value" : numberText(picture.cells[cell]!);
  const part = picture.read < picture.elements ? `an even part is shown: ${counted(picture.read)} of ${counted(picture.elements)}` : "";
  const cellSize = Math.ceil(rows / high) * Math.ceil(columns / wide);
  return (
    <section class="picture" aria-label={TITLES[state]}>
      <h3>{TITLES[state]}</h3>
      <canvas
        ref={canvas} tabIndex={0} role="img" onKeyDown={move} onPointerMove={point} onPointerDown={point}
        style={{ aspectRatio: `${wide} / ${high}` }}
        aria-label={`${counted(rows)} rows of ${counted(columns)} elements, from ${numberText(picture.low)} to ${numberText(picture.high_)}; arrow keys read single cells`}
      />
      <p class="cell" role="status">{place}: {value}{cellSize > 1 ? " (mean of the cell)" : ""}</p>
      <FactList
        rows={[
          ["elements", counted(picture.elements)],
          ["read", part],
          ["least, most", picture.low <= picture.high_ ? `${numberText(picture.low)}, ${numberText(picture.high_)}` : "no finite value"],
          ["mean", numberText(picture.mean)],
          ["zeros, NaN, infinite", `${counted(picture.zeros)}, ${counted(picture.nans)}, ${counted(picture.infinities)}`],
          ["shown as", picture.note],
          ["colours", isApart ? "each picture has its own scale" : ""],
        ]}
      />
      {picture.low < picture.high_ && <Histogram picture={picture} />}
    </section>
  );
}

function Histogram({ picture }: { picture: Picture }) {
  const parent = useRef<HTMLDivElement>(null);
  const { bins, low, high_: top } = picture;
  const width = (top - low) / bins.length;
  useEffect(() => {
    const style = getComputedStyle(parent.current!);
    const [ink, line, fill] = [style.color, style.getPropertyValue("--line"), style.getPropertyValue("--accent")];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const plot = new uPlot(
      {
        width: parent.current!.clientWidth, height: 160, legend: { show: false }, cursor: { show: false },
        scales: { x: { time: false }, y: { range: (_, __, most) => [0, most * 1.05] } },
        axes: [axis, { ...axis, size: 60, values: (_, ticks) => ticks.map(counted) }],
        series: [{}, { stroke: fill, fill, points: { show: false }, paths: uPlot.paths.bars!({ size: [1, Infinity] }) }],
      },
      [bins.map((_, at) => low + (at + 0.5) * width), bins],
      parent.current!,
    );
    return () => plot.destroy();
  }, [picture]);
  const most = bins.indexOf(Math.max(...bins));
  const label = `Histogram: most elements, ${counted(bins[most]!)}, are from ${numberText(low + most * width)} to ${numberText(low + (most + 1) * width)}`;
  return <div ref={parent} class="histogram" role="img" aria-label={label} />;
}
