// The launches of a range, and which of them may read what others changed.
import { reader } from "./reader.ts";
import type { Facts } from "../work/worker.ts";
import { Table, useLoaded } from "./kit.tsx";
import { counted, dimensions } from "./text.ts";

const STEP = 24;

export function RangeTab({ facts, select }: { facts: Facts; select: (launch: number) => void }) {
  const { value: flows = [] } = useLoaded(() => reader.flows(facts.id), [facts.id]);
  const { missing, notes } = facts.range!;
  const link = (launch: number) => <button type="button" class="link" key={launch} onClick={() => select(launch)}>{launch}</button>;
  const links = (all: number[]) => all.flatMap((launch, at) => (at ? [", ", link(launch)] : [link(launch)]));
  return (
    <>
      {facts.launches.length <= 200 && <Arcs count={facts.launches.length} flows={flows} />}
      <Table
        caption="Launches, in the order of the program"
        head={["launch", "kernel", "grid", "position", "may read what was changed by", "self-check"]}
        rows={facts.launches.map(({ number, position, manifest, checks }) => [
          link(number), manifest.kernel.qualified_name, dimensions(manifest.launch.grid), counted(position!),
          links(flows.filter((flow) => flow.to === number).map((flow) => flow.from)), checks?.self_check?.result ?? "not done",
        ])}
      />
      <p class="soft">By arguments, and by the chunks that each launch changed; <code>kerncap inspect</code> measures it by bytes.</p>
      {missing.length > 0 && (
        <Table caption="Launches that could not be captured" head={["position", "kernel", "why"]} rows={missing.map((each) => [counted(each.position), each.kernel, each.reason])} />
      )}
      {notes.length > 0 && <ul>{notes.map((note) => <li key={note}>{note}</li>)}</ul>}
    </>
  );
}

/** The same as a picture: an arc from each launch to those that read from it. */
function Arcs({ count, flows }: { count: number; flows: { from: number; to: number }[] }) {
  const longest = Math.max(1, ...flows.map((flow) => flow.to - flow.from));
  const height = Math.min(160, 12 + longest * 14);
  const x = (launch: number) => STEP / 2 + launch * STEP;
  return (
    <div class="scrolled" role="region" aria-label="Flow between launches" tabIndex={0}>
      <svg width={count * STEP} height={height + 24} role="img" aria-label={`${flows.length} flows between ${count} launches; the table has each`}>
        {flows.map(({ from, to }) => (
          <path key={`${from}-${to}`} class="arc" d={`M${x(from)} ${height} C${x(from)} ${height - ((to - from) / longest) * height} ${x(to)} ${height - ((to - from) / longest) * height} ${x(to)} ${height}`} />
        ))}
        {Array.from({ length: count }, (_, launch) => (
          <g key={launch}><circle class="node" cx={x(launch)} cy={height} r={4} /><text x={x(launch)} y={height + 18}>{launch}</text></g>
        ))}
      </svg>
    </div>
  );
}
