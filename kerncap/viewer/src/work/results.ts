// What other commands found out: the --json of sanitize, verify and replay, each checked by its schema.
import { Validator } from "@cfworker/json-schema";
import replaySchema from "../../../../docs/schemas/replay.json";
import sanitizeSchema from "../../../../docs/schemas/sanitize.json";
import verifySchema from "../../../../docs/schemas/verify.json";
import type { Data } from "../format/bytes.ts";
import { FormatError } from "../format/errors.ts";
import type { Sanitize } from "../format/generated/sanitize.ts";
import type { Verify } from "../format/generated/verify.ts";
import { utf8 } from "../format/manifest.ts";

const KINDS = { verify: verifySchema, replay: replaySchema, sanitize: sanitizeSchema }; // a verdict of verify is one of replay, too
const TITLES = {
  oob: "out of bounds", race: "race between programs", uninit: "read of unwritten memory", overflow: "integer overflow in an address",
  promise: "broken promise to the compiler", alignment: "misaligned access", descriptor: "invalid tensor descriptor",
  shared: "shared memory used out of order",
};
const MAX_NOTES = 400;

/** Of the sanitizer, about a line of the source. */
export interface Note {
  level: "finding" | "noted" | "unproven";
  title: string;
  message: string;
  file: string | null;
  line: number | null;
}

export interface Result {
  command: keyof typeof KINDS;
  kernel: string;
  result: "pass" | "fail" | "undecided";
  summary: string;
  stages: Verify["stages"];
  notes: Note[];
}

/** One for each kernel that the document is about. */
export function decodeResults(data: Data, name: string): Result[] {
  let document: unknown;
  try {
    document = JSON.parse(utf8(data, name));
  } catch (error) {
    throw error instanceof FormatError ? error : new FormatError(name, `not valid JSON: ${error}`);
  }
  const fits = ([, schema]: [string, object]) => new Validator(schema, "2020-12").validate(document).valid;
  const command = Object.entries(KINDS).find(fits)?.[0] as keyof typeof KINDS | undefined;
  if (!command) throw new FormatError(name, "not the --json of sanitize, verify or replay of this version");
  if (command === "sanitize") return sanitized(document as Sanitize);
  const { kernel, result, summary, stages } = document as Verify;
  return [{ command, kernel, result, summary, stages: stages ?? [], notes: [] }];
}

function sanitized({ launches }: Sanitize): Result[] {
  const kernels = [...new Set(launches.map((launch) => launch.kernel))];
  return kernels.map((kernel) => {
    const own = launches.filter((launch) => launch.kernel === kernel);
    const notes = new Map<string, Note>(); // launches of one kernel say the same
    for (const { findings, noted, unproven } of own) {
      const all: Note[] = [
        ...findings.map((each) => note("finding", each, each.suggestion ? `${each.message}; try ${each.suggestion}` : each.message)),
        ...noted.map((each) => note("noted", each, each.message)),
        ...unproven.map((each) => note("unproven", each, each.reason)),
      ];
      for (const each of all) notes.set(`${each.level} ${each.file}:${each.line} ${each.message}`, each);
    }
    const results = own.map((launch) => launch.result);
    const sum = (key: "proved" | "violated") => own.reduce((all, launch) => all + launch[key], 0);
    return {
      command: "sanitize",
      kernel,
      result: results.includes("fail") ? "fail" : results.includes("undecided") ? "undecided" : "pass",
      summary: `memory operations: ${sum("proved")} proved, ${sum("violated")} violated`,
      stages: [],
      notes: [...notes.values()].slice(0, MAX_NOTES),
    };
  });
}

function note(level: Note["level"], at: { check: keyof typeof TITLES; file: string | null; line: number | null }, message: string): Note {
  return { level, title: TITLES[at.check], message, file: at.file, line: at.line };
}
