// `node read_all.ts FOLDER`: read every .zip file in it, and every folder, as the viewer does, and check every
// digest. Prints one JSON document: for each name null, or why it was refused.
import { openAsBlob } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { openArchive, type Folder } from "../../kerncap/viewer/src/format/archive.ts";
import { ofBlob } from "../../kerncap/viewer/src/format/bytes.ts";
import { FormatError } from "../../kerncap/viewer/src/format/errors.ts";
import { openFolder } from "../../kerncap/viewer/src/format/folder.ts";
import { Reproducer } from "../../kerncap/viewer/src/format/reproducer.ts";

async function folderOf(path: string): Promise<Folder> {
  if ((await stat(path)).isFile()) return openArchive(ofBlob(await openAsBlob(path)), path);
  const found = await readdir(path, { recursive: true, withFileTypes: true });
  const files = found.filter((each) => each.isFile()).map((each) => `${each.parentPath}/${each.name}`);
  return openFolder(await Promise.all(files.map(async (each) => ({ path: each.slice(path.length + 1), bytes: ofBlob(await openAsBlob(each)) }))), path);
}

async function refusal(path: string): Promise<string | null> {
  try {
    const reproducer = await Reproducer.open(await folderOf(path));
    await reproducer.verify(() => undefined);
    for (const launch of reproducer.launches) {
      for (const [number, region] of launch.manifest.regions.entries()) {
        const size = Math.min(region.size, 2 ** 20);
        await reproducer.read(launch, "pre", number, 0, size);
        await reproducer.read(launch, "post", number, region.size - size, size);
      }
    }
    return null;
  } catch (error) {
    return error instanceof FormatError ? error.message : `not a FormatError: ${error instanceof Error ? error.stack : error}`;
  }
}

const parent = process.argv[2]!;
const answers: Record<string, string | null> = {};
for (const name of await readdir(parent)) answers[name] = await refusal(`${parent}/${name}`);
console.log(JSON.stringify(answers));
