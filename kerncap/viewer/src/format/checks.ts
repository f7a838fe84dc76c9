// checks.json: what kerncap found out after sealing (FORMAT.md, "Checks").
import { type Schema, Validator } from "@cfworker/json-schema";
import type { Data } from "./bytes.ts";
import { sha256Hex } from "./digests.ts";
import { FormatError } from "./errors.ts";
import type { StoredFile } from "./generated/manifest.ts";
import { utf8 } from "./manifest.ts";

export interface Checks {
  manifest_sha256: string;
  self_check?: { result: "pass" | "fail" | "undecided" | "skipped"; reason?: string; engine?: string } | null;
  write_set?: StoredFile | null;
}

const sha256: Schema = { type: "string", pattern: "^[0-9a-f]{64}$" };
const object = (required: string[], properties: Schema["properties"]): Schema => ({ type: ["object", "null"], required, properties });
const schema = new Validator({
  type: "object",
  required: ["manifest_sha256", "digest"],
  properties: {
    manifest_sha256: sha256,
    digest: sha256,
    self_check: object(["result"], {
      result: { enum: ["pass", "fail", "undecided", "skipped"] },
      reason: { type: "string" },
      engine: { type: "string", maxLength: 4096 },
    }),
    write_set: object(["path", "size", "sha256"], {
      path: { type: "string", minLength: 1, maxLength: 1024 },
      size: { type: "integer", minimum: 0, maximum: 2 ** 48 },
      sha256,
    }),
  },
}, "2020-12");

export async function decodeChecks(data: Data, where: string): Promise<Checks> {
  let document: any;
  try {
    document = JSON.parse(utf8(data, where));
  } catch (error) {
    throw error instanceof FormatError ? error : new FormatError(where, `not valid JSON: ${error}`);
  }
  const wrong = schema.validate(document).errors.at(-1);
  if (wrong) throw new FormatError(where, wrong.error);
  const digest = await sha256Hex(new TextEncoder().encode(canonical(document)));
  if (digest !== document.digest) throw new FormatError(where, "damaged: its content has another SHA-256");
  return document;
}

/** The one spelling of the document without its digest: known keys sorted, those with their default left out. */
function canonical(document: any): string {
  const pick = (from: any, keys: string[]) =>
    from ? Object.fromEntries(keys.filter((key) => from[key]).map((key) => [key, from[key]])) : undefined;
  const stored = document.write_set;
  const plain = {
    manifest_sha256: document.manifest_sha256,
    self_check: pick(document.self_check, ["engine", "reason", "result"]),
    write_set: stored ? { path: stored.path, sha256: stored.sha256, size: stored.size } : undefined,
  };
  return `${JSON.stringify(plain, undefined, 1)}\n`;
}
