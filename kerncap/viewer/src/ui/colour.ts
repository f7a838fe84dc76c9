// The scale of pictures: even in lightness and safe for the colour-blind, a path through OKLCH that the browser
// itself turns into the colours of the screen.
const STEPS = 256;
const BAD = [213, 94, 0]; // vermilion: on no place of the scale
let scale: Uint8ClampedArray | undefined;

function makeScale(): Uint8ClampedArray {
  const context = new OffscreenCanvas(STEPS, 1).getContext("2d")!;
  for (let step = 0; step < STEPS; step++) {
    const t = step / (STEPS - 1);
    context.fillStyle = `oklch(${0.26 + 0.66 * t} 0.13 ${308 - 150 * t - 52 * t * t})`;
    context.fillRect(step, 0, 1, 1);
  }
  return context.getImageData(0, 0, STEPS, 1).data;
}

/** Colours of cells between `low` and `high`. `flags`: 1 is a value that is not finite, 2 is no value. */
export function paint(canvas: HTMLCanvasElement, wide: number, high: number, cells: Float64Array, flags: Uint8Array, low: number, top: number): void {
  scale ??= makeScale();
  [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(wide, high);
  cells.forEach((value, cell) => {
    if (flags[cell] === 2) return;
    const step = Math.min(STEPS - 1, Math.max(0, Math.round(top > low ? ((value - low) / (top - low)) * (STEPS - 1) : 0)));
    const colour = flags[cell] === 1 ? BAD : scale!.subarray(step * 4, step * 4 + 3);
    image.data.set([...colour, 255], cell * 4);
  });
  context.putImageData(image, 0, 0);
}
