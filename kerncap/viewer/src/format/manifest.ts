// manifest.json: its types and bounds by the schema, then the rules that span several objects (rules.ts).
import { Validator } from "@cfworker/json-schema";
import manifestSchema from "../../../format/manifest.schema.json" with { type: "json" };
import rangeSchema from "../../../format/range.schema.json" with { type: "json" };
import type { Data } from "./bytes.ts";
import { FormatError } from "./errors.ts";
import type { Manifest } from "./generated/manifest.ts";
import type { RangeManifest } from "./generated/range.ts";
import { checkRange, checkRules } from "./rules.ts";

export type { Manifest, RangeManifest };

const MAJOR = 1;
const validators = {
  "kerncap-reproducer": new Validator(manifestSchema as object, "2020-12"),
  "kerncap-range": new Validator(rangeSchema as object, "2020-12"),
};

/** A manifest, all rules checked. Integers that a number can't hold are bigint. */
export function decodeManifest(data: Data, where: string): Manifest | RangeManifest {
  const text = utf8(data, where);
  try {
    // Rounded, for the schema: its validator knows no bigint, and bounds are far from where rounding matters.
    const rounded = JSON.parse(text);
    const format = rounded?.format as keyof typeof validators;
    if (rounded?.version?.major !== MAJOR) {
      throw new FormatError(where, `format version ${rounded?.version?.major} is not known; this viewer reads version ${MAJOR}`);
    }
    if (!Object.hasOwn(validators, format)) throw new FormatError(where, `its format is not a reproducer's`);
    const wrong = validators[format].validate(rounded).errors.at(-1);
    if (wrong) throw new FormatError(where, `${wrong.instanceLocation.slice(2) || "the document"}: ${wrong.error}`);
    const manifest = JSON.parse(text, exact as (key: string, value: unknown) => unknown);
    if (format === "kerncap-range") checkRange(manifest, where);
    else checkRules(manifest, where);
    return manifest;
  } catch (error) {
    if (error instanceof FormatError) throw error;
    throw new FormatError(where, error instanceof RangeError ? "nested too deep" : `not valid JSON: ${error}`);
  }
}

export function utf8(data: Data, where: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw new FormatError(where, "not UTF-8");
  }
}

function exact(key: string, value: unknown, context: { source?: string }): unknown {
  if (!key.isWellFormed() || (typeof value === "string" && !value.isWellFormed())) throw new Error("half a character");
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  if (context?.source === undefined) throw new Error("this browser is too old to read large integers");
  return /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
}
