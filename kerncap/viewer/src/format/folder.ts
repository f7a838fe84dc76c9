// A reproducer as the files of a folder: dropped as one, or served by `kerncap view`.
import type { Folder } from "./archive.ts";
import type { Bytes } from "./bytes.ts";
import { FormatError } from "./errors.ts";
import { MAX_FOLDER_ENTRIES } from "./limits.ts";
import { foldersOf, MANIFEST } from "./names.ts";

/** `files` by their paths below any folder; the manifest's place says which one is the reproducer's. */
export function openFolder(files: { path: string; bytes: Bytes }[], where: string): Folder {
  const tops = files.map((each) => each.path).filter((path) => path.split("/").at(-1) === MANIFEST);
  const top = tops.sort((a, b) => a.split("/").length - b.split("/").length)[0];
  if (top === undefined) throw new FormatError(where, `no reproducer: there is no ${MANIFEST} in it`);
  if (files.length > MAX_FOLDER_ENTRIES) throw new FormatError(where, `holds more than ${MAX_FOLDER_ENTRIES} files`);
  const prefix = top.slice(0, -MANIFEST.length);
  const below = new Map(files.filter(({ path }) => path.startsWith(prefix)).map(({ path, bytes }) => [path.slice(prefix.length), bytes]));
  return {
    where,
    files: new Map([...below].map(([path, bytes]) => [path, { size: bytes.size, open: async () => bytes }])),
    folders: new Set([...below.keys()].flatMap(foldersOf)),
  };
}
