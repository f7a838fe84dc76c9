// Which line of the source each line of a compiled stage comes from: as kerncap/report/html/stage_lines.py.
// Lenient on purpose: what is not understood links to nothing. Sources: MLIR's location attributes, LLVM's
// DILocation metadata, the .file and .loc directives of PTX and of LLVM's assemblers.

export type Place = [file: string, line: number];
export interface Linked {
  lines: string[];
  places: (Place | undefined)[];
}

const DEPTH = 16;

export function link(stage: string, lines: string[]): Linked {
  if (["ttir", "ttgir", "source", "ttsharedir"].includes(stage)) return mlir(lines);
  return stage === "llir" ? llvm(lines) : assembly(lines);
}

function mlir(lines: string[]): Linked {
  const definition = /^#(loc\w*) = loc\((.*)\)\s*$/;
  const table = new Map<string, string>();
  for (const line of lines) {
    const found = definition.exec(line);
    if (found) table.set(found[1]!, found[2]!);
  }
  const resolved = new Map<string, Place | undefined>();
  const resolve = (text: string, depth = 0): Place | undefined => {
    const direct = /"((?:[^"\\]|\\.)*)":(\d+):\d+/.exec(text);
    if (direct && Number(direct[2])) return [direct[1]!, Number(direct[2])];
    if (depth >= DEPTH) return undefined;
    for (const [, name] of [...text.matchAll(/#(loc\w*)/g)].slice(0, 4)) {
      if (!resolved.has(name!)) {
        resolved.set(name!, undefined); // a location that names itself ends here
        resolved.set(name!, resolve(table.get(name!) ?? "", depth + 1));
      }
      if (resolved.get(name!)) return resolved.get(name!);
    }
    return undefined;
  };
  const use = / loc\((#loc\w*|"(?:[^"\\]|\\.)*":\d+:\d+)\)$/;
  const shown = lines.filter((line) => !definition.test(line));
  return {
    lines: shown.map((line) => line.replace(use, "").replace(/ loc\((?:"[^"]*"\()?#loc\w*\)?\)/g, "")),
    places: shown.map((line) => {
      const found = use.exec(line);
      return found ? resolve(found[1]!) : undefined;
    }),
  };
}

interface Node {
  kind: string;
  fields: Map<string, string>;
}

function llvm(lines: string[]): Linked {
  const definition = /^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)\s*$/;
  const nodes = new Map<string, Node>();
  for (const line of lines) {
    const found = definition.exec(line);
    if (!found) continue;
    const fields = [...found[3]!.matchAll(/(\w+): ("[^"]*"|!?\w+)/g)];
    nodes.set(found[1]!, { kind: found[2]!, fields: new Map(fields.map((each) => [each[1]!, each[2]!])) });
  }
  const use = /,? !dbg !(\d+)/g;
  const shown = lines.filter((line) => !definition.test(line));
  return {
    lines: shown.map((line) => line.replace(use, "")),
    places: shown.map((line) => {
      const found = [...line.matchAll(use)][0];
      return found ? llvmPlace(nodes, found[1]!) : undefined;
    }),
  };
}

/** Of the innermost function: what was inlined from is not followed. */
function llvmPlace(nodes: Map<string, Node>, number: string): Place | undefined {
  let node = nodes.get(number);
  const line = Number(node?.fields.get("line"));
  if (!node || !["DILocation", "DISubprogram"].includes(node.kind) || !Number.isInteger(line) || !line) return undefined;
  for (let depth = 0; node && depth < DEPTH; depth++) {
    const name = node.fields.get("filename")?.slice(1, -1);
    if (name !== undefined) {
      const folder = node.fields.get("directory")?.slice(1, -1);
      return [name.startsWith("/") || !folder ? name : `${folder}/${name}`, line];
    }
    node = nodes.get((node.fields.get("file") ?? node.fields.get("scope") ?? "").replace(/^!/, ""));
  }
  return undefined;
}

function assembly(lines: string[]): Linked {
  const files = new Map<string, string>();
  for (const line of lines) {
    const found = /^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?/.exec(line);
    if (found) files.set(found[1]!, found[3] ? `${found[2]}/${found[3]}` : found[2]!);
  }
  let current: Place | undefined;
  const places = lines.map((line) => {
    const found = /^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+/.exec(line);
    if (found) {
      const file = files.get(found[1]!);
      current = file !== undefined && Number(found[2]) ? [file, Number(found[2])] : undefined;
    }
    const text = line.trim();
    const place = found || (text && !/^(?:\.|\/\/|[;{})])/.test(text)) ? current : undefined;
    if (/^(?:}|\.section|s_endpgm)/.test(text)) current = undefined;
    return place;
  });
  return { lines, places };
}

/** From a file's name in compiled text to its number in `files`: equal, else by the longest common end. */
export function matcher(files: string[]): (name: string) => number | undefined {
  const parts = (name: string) => name.split("/").filter((part) => !["", ".", ".."].includes(part)).reverse();
  const known = files.map(parts);
  const cache = new Map<string, number | undefined>();
  const best = (name: string) => {
    if (files.includes(name)) return files.indexOf(name);
    let [found, longest]: [number | undefined, number] = [undefined, 0];
    const wanted = parts(name);
    known.forEach((other, number) => {
      let common = 0;
      while (common < Math.min(wanted.length, other.length) && wanted[common] === other[common]) common++;
      if (common > longest) [found, longest] = [number, common];
    });
    return found;
  };
  return (name) => {
    if (!cache.has(name)) cache.set(name, best(name));
    return cache.get(name);
  };
}
