// Values, sizes and numbers as text: as kerncap/report/inspect_text.py writes them.
import { hexFloat, type Value } from "../format/rules.ts";
import type { Manifest } from "../format/manifest.ts";

export const counted = (count: number) => count.toLocaleString("en");
export const shapeText = (numbers: readonly number[]) => `[${numbers.join(", ")}]`;
export const dimensions = (numbers: readonly number[]) => numbers.join(" × ");
export const address = (number: number) => `0x${BigInt(number).toString(16)}`;

export function sizeText(bytes: number): string {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${bytes} bytes`;
}

export function numberText(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return counted(value);
  return String(Number(value.toPrecision(6)));
}

export function valueText(value: Value, views: Manifest["views"]): string {
  switch (value.kind) {
    case "none": return "None";
    case "bool": return value.value ? "True" : "False";
    case "int": return value.value;
    case "float": return String(hexFloat(value.value)).replace("Infinity", "inf").replace("NaN", "nan");
    case "str": return JSON.stringify(value.value);
    case "dtype": return `${value.library === "triton" ? "tl" : "torch"}.${value.name}`;
    case "function": return `function ${value.name}`;
    case "pointer": return `${value.dtype} at ${address(value.address)}`;
    case "opaque": return `${value.type_name}: ${value.repr}`;
    case "sequence": {
      const items = value.items.map((item, at) => `${value.fields ? `${value.fields[at]}=` : ""}${valueText(item, views)}`).join(", ");
      return value.type === "list" ? `[${items}]` : `${value.type_name ?? ""}(${items})`;
    }
    case "tensor": {
      const view = views[value.view]!;
      return `${value.wrapped_dtype ?? view.dtype}${shapeText(view.shape)}`;
    }
    case "descriptor": return `descriptor of ${views[value.view]!.dtype}${shapeText(value.shape)}, blocks of ${shapeText(value.block_shape)}`;
  }
}
