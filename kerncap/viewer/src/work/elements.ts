// Bytes of an element as a number, for any dtype: as kerncap/report/html/view_elements.py shows them.

type Decode = (from: DataView, at: number) => number;

/** Values of an 8-bit float: `bias` of the exponent; what the largest codes stand for differs by format. */
function eightBits(exponentBits: number, bias: number, special: "ieee" | "fn" | "fnuz"): Decode {
  const mantissaBits = 7 - exponentBits;
  const table = Float64Array.from({ length: 256 }, (_, code) => {
    const exponent = (code & 0x7f) >> mantissaBits;
    const mantissa = code & ((1 << mantissaBits) - 1);
    const sign = code & 0x80 ? -1 : 1;
    if (special === "fnuz" && code === 0x80) return NaN;
    if (special === "fn" && (code & 0x7f) === 0x7f) return NaN;
    if (special === "ieee" && exponent === (1 << exponentBits) - 1) return mantissa ? NaN : sign * Infinity;
    const fraction = mantissa / (1 << mantissaBits);
    return sign * (exponent ? (1 + fraction) * 2 ** (exponent - bias) : fraction * 2 ** (1 - bias));
  });
  return (from, at) => table[from.getUint8(at)]!;
}

const f32: Decode = (from, at) => from.getFloat32(at, true);
const f64: Decode = (from, at) => from.getFloat64(at, true);
const KNOWN: Record<string, [number, Decode]> = {
  bool: [1, (from, at) => Number(from.getUint8(at) !== 0)],
  float16: [2, (from, at) => from.getFloat16(at, true)],
  bfloat16: [2, (from, at) => bits32(from.getUint16(at, true) * 2 ** 16)],
  float32: [4, f32],
  float64: [8, f64],
  complex64: [8, (from, at) => Math.hypot(f32(from, at), f32(from, at + 4))],
  complex128: [16, (from, at) => Math.hypot(f64(from, at), f64(from, at + 8))],
  int8: [1, (from, at) => from.getInt8(at)],
  int16: [2, (from, at) => from.getInt16(at, true)],
  int32: [4, (from, at) => from.getInt32(at, true)],
  int64: [8, (from, at) => Number(from.getBigInt64(at, true))],
  float8_e4m3fn: [1, eightBits(4, 7, "fn")],
  float8_e5m2: [1, eightBits(5, 15, "ieee")],
  float8_e4m3fnuz: [1, eightBits(4, 8, "fnuz")],
  float8_e5m2fnuz: [1, eightBits(5, 16, "fnuz")],
};
const UNSIGNED: Record<number, Decode> = {
  1: (from, at) => from.getUint8(at),
  2: (from, at) => from.getUint16(at, true),
  4: (from, at) => from.getUint32(at, true),
  8: (from, at) => Number(from.getBigUint64(at, true)),
};
const ALIASES: Record<string, string> = {
  half: "float16", float: "float32", double: "float64", short: "int16", int: "int32", long: "int64",
};
const words = new DataView(new ArrayBuffer(4));

function bits32(bits: number): number {
  words.setUint32(0, bits);
  return words.getFloat32(0);
}

/** How elements are read; `note` is what a reader has to know about it. */
export function decoder(dtype: string, itemsize: number): { decode: Decode; note?: string } {
  const [size, decode] = KNOWN[ALIASES[dtype] ?? dtype] ?? [0, undefined];
  if (decode && size === itemsize) {
    return dtype.startsWith("complex") ? { decode, note: "absolute values of complex numbers" } : { decode };
  }
  const unsigned = UNSIGNED[itemsize];
  if (unsigned) {
    const note = dtype.startsWith("uint") ? undefined : `${dtype} is shown as unsigned integers of ${8 * itemsize} bits`;
    return note ? { decode: unsigned, note } : { decode: unsigned };
  }
  return { decode: UNSIGNED[1]!, note: `${dtype} of ${itemsize} bytes is shown by its first byte` };
}
