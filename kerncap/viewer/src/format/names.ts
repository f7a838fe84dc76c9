// Which files a reproducer may hold: kerncap/format/allowed_names.py (FORMAT.md, "Names"). The grammar is closed.
import { MAX_PATH_DEPTH } from "./limits.ts";

export const MANIFEST = "manifest.json";
export const MANIFEST_DIGEST = "manifest.sha256";
export const README = "README.md";
export const INDEX = "memory/index";
export const CHUNKS = "memory/chunks";
/** All but the first are there only for large memory. */
export const CHUNK_FILES = [CHUNKS, ...Array.from({ length: 15 }, (_, at) => `${CHUNKS}.${at + 1}`)];

const CODE = "code/kernel\\.[A-Za-z0-9._-]{1,120}";
const SOURCE = "source/[^]+";
const WRITE_SET = "write_set-[0-9a-f]{16}\\.bin";
const only = (pattern: string) => new RegExp(`^(?:${pattern})$`);
const LISTED: Record<string, RegExp> = {
  memory: only([INDEX, ...CHUNK_FILES].map((name) => name.replace(".", "\\.")).join("|")),
  code: only(CODE),
  source: only(SOURCE),
  files: only(`README\\.md|${CODE}|${SOURCE}`),
};
const beside = (checks: string) =>
  only(
    `manifest\\.(?:json|sha256)|${checks}|${WRITE_SET}|\\.nfs[0-9a-f]{1,32}` +
      `|\\.(?:checks\\.json|checks-[0-9]{1,4}\\.json|${WRITE_SET})\\.tmp-[0-9]+-[0-9a-f]{8}`,
  );
const BESIDE = beside("checks\\.json");
const BESIDE_RANGE = beside("checks-[0-9]{1,4}\\.json");

/** Why `name` is not a plain relative path; undefined if it is one. */
export function pathProblem(name: string): string | undefined {
  if (!name) return "an empty path";
  if (/[\0\\]/.test(name)) return "a path with a NUL byte or a backslash";
  if (name.startsWith("/") || name[1] === ":") return "an absolute path";
  const parts = name.split("/");
  if (parts.some((each) => each === ".." || each === "." || each === "")) return "a path that is not in its plain form";
  const encoder = new TextEncoder();
  if (parts.length > MAX_PATH_DEPTH || parts.some((each) => encoder.encode(each).length > 255)) {
    return "a path that is too deep or has too long a component";
  }
  return undefined;
}

/** Why `group` of a manifest (memory, code, source, files) may not list `name`. */
export function listedProblem(name: string, group: string): string | undefined {
  return pathProblem(name) ?? (LISTED[group]!.test(name) ? undefined : `${name} can't be listed as ${group}`);
}

export const isWriteSet = (name: string) => only(WRITE_SET).test(name);
export const manifestOfLaunch = (launch: number) => `launches/${launch}.json`;
export const foldersOf = (name: string) =>
  name.split("/").slice(0, -1).map((_, at, all) => all.slice(0, at + 1).join("/"));

/** The first name that is not listed and has no other right to be there. */
export function otherName(
  files: Iterable<string>, folders: Iterable<string>, listed: ReadonlySet<string>, isRange: boolean,
): string | undefined {
  const known = new Set([...listed].flatMap(foldersOf));
  const allowed = isRange ? BESIDE_RANGE : BESIDE;
  for (const name of files) if (!listed.has(name) && !allowed.test(name)) return name;
  for (const name of folders) if (!known.has(name)) return name;
  return undefined;
}
