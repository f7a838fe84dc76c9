// Two reproducers: what their manifests say differently, and their sources side by side.
import { MergeView } from "@codemirror/merge";
import { useEffect, useRef } from "preact/hooks";
import type { Facts } from "../work/worker.ts";
import { readOnly } from "./editor.ts";
import { Pending, Table, useLoaded } from "./kit.tsx";
import { reader } from "./reader.ts";

const MAX_ROWS = 500;
const DIGESTS = /\.sha256$|^(files|memory)\./; // they differ whenever anything does

export function CompareTab({ one, launch, other }: { one: Facts; launch: number; other: Facts }) {
  const [first, second] = [one.launches[launch]!, other.launches[Math.min(launch, other.launches.length - 1)]!];
  const [a, b] = [flat(first.manifest), flat(second.manifest)];
  const keys = [...new Set([...a.keys(), ...b.keys()])].filter((key) => a.get(key) !== b.get(key) && !DIGESTS.test(key)).sort();
  return (
    <>
      <Table
        caption={keys.length ? `${keys.length} differences between the manifests` : "The manifests are equal"}
        head={["key", one.name, other.name]}
        rows={keys.slice(0, MAX_ROWS).map((key) => [<code>{key}</code>, a.get(key) ?? "–", b.get(key) ?? "–"])}
      />
      {keys.length > MAX_ROWS && <p>{keys.length - MAX_ROWS} more are not shown.</p>}
      <p class="soft">Values are compared by <code>kerncap diff A B</code>.</p>
      <Sources one={[one.id, first.number]} other={[other.id, second.number]} />
    </>
  );
}

/** Each value of a manifest by its key, as text. */
function flat(value: unknown, key = "", into = new Map<string, string>()): Map<string, string> {
  if (value !== null && typeof value === "object") {
    for (const [name, each] of Object.entries(value)) flat(each, key ? `${key}.${name}` : name, into);
  } else into.set(key, String(value));
  return into;
}

function Sources({ one, other }: { one: [number, number]; other: [number, number] }) {
  const parent = useRef<HTMLDivElement>(null);
  const { value, problem } = useLoaded(() => Promise.all([reader.code(...one), reader.code(...other)]), [...one, ...other]);
  const [a, b] = [value?.[0][0], value?.[1][0]];
  useEffect(() => {
    if (!a || !b) return;
    const side = (text: typeof a, which: string) => ({ doc: text.text, extensions: readOnly(text.language, `${which}: ${text.name}`) });
    const view = new MergeView({ a: side(a, "First source"), b: side(b, "Second source"), parent: parent.current!, collapseUnchanged: {} });
    return () => view.destroy();
  }, [value]);
  if (!value) return <Pending problem={problem} />;
  return a && b ? <><h3>Sources</h3><div ref={parent} class="merge" /></> : <p>One of them has no source.</p>;
}
