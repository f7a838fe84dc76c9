// A scale that is even in lightness and safe for the colour-blind: dark violet over green to light yellow, a
// path through OKLCH. Source of the conversion: B. Ottosson, "A perceptual color space for image processing".
const STEPS = 256;
const scale = makeScale();

function makeScale() {
  const path = Array.from({ length: STEPS }, (_, step) => {
    const t = step / (STEPS - 1);
    return { lightness: 0.26 + 0.66 * t, hue: ((308 - 150 * t - 52 * t * t) * Math.PI) / 180 };
  });
  const most = path.map(({ lightness, hue }) => Math.min(0.165, 0.96 * mostChroma(lightness, hue)));
  return path.map(({ lightness, hue }, step) => {
    // The gamut's edge has corners: a mean over neighbours has none, and stays inside.
    const around = most.slice(Math.max(0, step - 24), step + 25);
    const chroma = Math.min(most[step], around.reduce((sum, each) => sum + each, 0) / around.length);
    return fromOklch(lightness, chroma, hue).map((part) => Math.round(255 * gamma(Math.min(1, Math.max(0, part)))));
  });
}

function mostChroma(lightness, hue) {
  let inside = 0, outside = 0.4;
  for (let turn = 0; turn < 16; turn++) {
    const middle = (inside + outside) / 2;
    if (fromOklch(lightness, middle, hue).every((part) => part >= 0 && part <= 1)) inside = middle;
    else outside = middle;
  }
  return inside;
}

function fromOklch(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue), b = chroma * Math.sin(hue);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

function gamma(part) {
  return part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055;
}
const NOT_A_NUMBER = [213, 94, 0]; // vermilion: on no place of the scale
