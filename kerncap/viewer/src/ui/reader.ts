// The worker, and what was dropped on the page as it takes it.
import { wrap } from "comlink";
import type { Api, Given } from "../work/worker.ts";
import ReaderWorker from "../work/worker.ts?worker&inline";

const worker: Worker = new ReaderWorker();
export const reader = wrap<Api>(worker);

/** A worker that can't run answers nothing. */
export const onFailure = (tell: (problem: string) => void) =>
  worker.addEventListener("error", (event) => tell(`this browser can't run the reader: ${event.message ?? "its worker did not start"}`));

export const ofFiles = (files: Iterable<File>): Given =>
  [...files].map((file) => ({ path: file.webkitRelativePath || file.name, blob: file }));

/** Each thing that was dropped: a file, or a folder with all that is in it. */
export async function ofDrop(items: DataTransferItemList): Promise<Given[]> {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  return Promise.all(entries.map(filesOf));
}

async function filesOf(entry: FileSystemEntry): Promise<{ path: string; blob: Blob }[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ path: entry.fullPath.slice(1), blob: file }];
  }
  const folder = (entry as FileSystemDirectoryEntry).createReader();
  const found: FileSystemEntry[] = [];
  for (;;) {
    // A browser gives some hundred at a time.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => folder.readEntries(resolve, reject));
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map(filesOf))).flat();
}

/** What `kerncap view` serves, if the page comes from it. */
export async function ofServer(): Promise<Given[]> {
  if (location.hash !== "#served") return [];
  const answer = await fetch("given.json");
  if (!answer.ok) throw new Error(`kerncap view answered ${answer.status}`);
  const all: { path: string; url: string; size: number }[][] = await answer.json();
  // The worker has no address of its own to start from.
  return all.map((files) => files.map((file) => ({ ...file, url: new URL(file.url, location.href).href })));
}
