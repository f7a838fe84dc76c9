// The launch in words: verdicts, facts, arguments, where it was captured.
import type { Result } from "../work/results.ts";
import type { Facts, LaunchFacts } from "../work/worker.ts";
import { FactList, Table, type Rows } from "./kit.tsx";
import { address, counted, dimensions, shapeText, sizeText, valueText } from "./text.ts";

const ORACLES = {
  trusted: ["good", "the application's own result"],
  suspect: ["warn", "kept because the result looked wrong"],
  fault: ["bad", "the launch faulted in the application"],
  timeout: ["bad", "the launch did not end in the application"],
  regenerated: ["none", "made by a replay, not by the application"],
} as const;
const TONES = { pass: "good", fail: "bad", undecided: "warn", skipped: "none" } as const;
const SIGNS = { good: "✓", bad: "✗", warn: "!", none: "–" } as const;
const COMMANDS = ["replay", "verify", "sanitize", "report"];

const DID = { verify: "verified", replay: "replayed", sanitize: "sanitizer" } as const;

export function LaunchTab({ facts, launch, results }: { facts: Facts; launch: LaunchFacts; results: Result[] }) {
  const { manifest } = launch;
  const { views } = manifest;
  const tuned = manifest.autotune;
  return (
    <>
      <Verdicts launch={launch} results={results} />
      {results.filter((each) => each.stages.length > 0).map((each, at) => (
        <Table
          key={at} caption="Stages of verify" head={["stage", "result", "showed", "did not show"]}
          rows={each.stages.map((stage) => [stage.name, stage.result, [...stage.reasons, ...stage.shown].join("; "), stage.not_shown.join("; ")])}
        />
      ))}
      <h3>Launch</h3>
      <FactList rows={launchRows(launch)} />
      <Table
        caption="Arguments"
        head={["name", "value", "type", "strides", "memory", "divisible by"]}
        rows={manifest.arguments.map(({ name, role, value, signature, divisibility }) => {
          const view = value.kind === "tensor" || value.kind === "descriptor" ? views[value.view] : undefined;
          return [
            name, <code>{valueText(value, views)}</code>, signature ?? role, view ? shapeText(view.strides) : "",
            view ? `region ${view.region} + ${counted(view.offset)}` : "", divisibility ?? "",
          ];
        })}
      />
      {tuned && (
        <Table
          caption={`Configurations of the autotuner, by ${(tuned.key ?? []).join(", ") || "no key"}`}
          head={["chosen", "configuration", "grid"]}
          rows={tuned.configs.slice(0, 120).map((config, number) => [
            number === tuned.chosen ? "yes" : "", values({ ...config.kwargs, ...config.options }, launch), config.grid ? dimensions(config.grid) : "",
          ])}
        />
      )}
      {(manifest.notes ?? []).length > 0 && <><h3>Notes</h3><ul>{manifest.notes!.map((note) => <li key={note}>{note}</li>)}</ul></>}
      <h3>Environment</h3>
      <FactList rows={environmentRows(launch)} />
      <h3>Run it</h3>
      <p>With kerncap installed, in the folder of the reproducer (<code>kerncap unpack {facts.name}</code> makes it from a .zip):</p>
      <ul>{COMMANDS.map((command) => <li key={command}><code>kerncap {command} .</code></li>)}</ul>
    </>
  );
}

function Verdicts({ launch, results }: { launch: LaunchFacts; results: Result[] }) {
  const { oracle, closure } = launch.manifest;
  const check = launch.checks?.self_check;
  const [tone, why] = ORACLES[oracle.kind];
  const more = [oracle.condition, oracle.error, oracle.detail].filter(Boolean).join("; ");
  const notHeld = closure.not_held?.[0];
  return (
    <ul class="badges" aria-label="Verdicts">
      <Badge name="oracle" value={oracle.kind} tone={tone} why={more ? `${why}: ${more}` : why} />
      <Badge
        name="self-check" value={check?.result ?? "not done"} tone={check ? TONES[check.result] : "none"}
        why={check ? [check.reason, check.engine && `by ${check.engine}`].filter(Boolean).join(", ") : "no replay was made after the capture"}
      />
      {results.map((each, at) => <Badge key={at} name={DID[each.command]} value={each.result} tone={TONES[each.result]} why={each.summary} />)}
      {notHeld && <Badge name="values" value="left out" tone="none" why={`it needs ${notHeld}, which no reproducer can hold`} />}
    </ul>
  );
}

function Badge({ name, value, tone, why }: { name: string; value: string; tone: keyof typeof SIGNS; why: string }) {
  return (
    <li class={tone}><span aria-hidden="true">{SIGNS[tone]}</span> {name}: <strong>{value}</strong> <span class="soft">{why}</span></li>
  );
}

function values(map: Record<string, Parameters<typeof valueText>[0]> | undefined, { manifest }: LaunchFacts): string {
  return Object.entries(map ?? {}).map(([name, value]) => `${name}=${valueText(value, manifest.views)}`).join(", ");
}

function launchRows(one: LaunchFacts): Rows {
  const { kernel, launch, device, closure, collective, compiled, source } = one.manifest;
  const { dispatch, parameters, limits } = launch;
  const frames = (launch.python_stack ?? []) as [string, number, string][];
  const shownFrames = [...frames].reverse().slice(0, 24);
  return [
    ["kernel", kernel.qualified_name],
    ["mangled", kernel.mangled],
    ["defined in", kernel.file && `${kernel.file}:${kernel.line ?? "?"}`],
    ["grid", dimensions(launch.grid)],
    ["grid from", launch.grid_source?.source.trim()],
    ["block", launch.block && dimensions(launch.block)],
    ["cluster", launch.cluster && dimensions(launch.cluster)],
    ["dynamic shared memory", launch.shared_bytes == null ? "" : `${counted(launch.shared_bytes)} bytes`],
    ["work-items", dispatch && `${dimensions(dispatch.work_items)}; LDS ${dispatch.group_bytes ?? 0} bytes, scratch ${dispatch.private_bytes ?? 0} bytes each`],
    ["cooperative", launch.cooperative ? "yes" : ""],
    ["parameters", parameters && `${counted(parameters.bytes.length / 2)} bytes, ${parameters.layout ? `${parameters.layout.length} parameters` : "layout not known"}`],
    ["limits", limits && `stack ${sizeText(limits.stack_bytes)}, heap ${sizeText(limits.heap_bytes)}, printf ${sizeText(limits.print_bytes)}`],
    ["attributes", (launch.attributes ?? []).map(({ id, value }) => `${id}: ${value.replace(/0+$/, "") || "0"}`).join(", ")],
    ["textures", (launch.textures ?? []).map((each) => `${each.kind} ${each.handle} on ${each.resource}${each.region == null ? ` at ${address(each.address ?? 0)}` : ` region ${each.region}`}`).join("; ")],
    ["options", values(launch.options, one)],
    ["compiled", values(compiled, one)],
    ["number", `${launch.ordinal} in its process, ${launch.mode}${launch.route ? `, by ${launch.route}` : ""}${launch.stream ? `, stream ${launch.stream}` : ""}`],
    ["ranks", collective && `rank ${collective.rank} of ${collective.ranks} that made launch ${collective.id} together`],
    ["device", [device.name, device.arch, device.memory_bytes && sizeText(device.memory_bytes)].filter(Boolean).join(", ")],
    ["memory", `${closure.mode}, ${closure.consistency}, ${sizeText(closure.included_bytes)}${closure.left_out_bytes ? `; left out ${sizeText(closure.left_out_bytes)}` : ""}`],
    ["left out", (closure.left_out ?? []).slice(0, 8).join(", ")],
    ["source", source && `${source.file.path}, entry ${source.entry}${source.build ? `, built by ${source.build.tool} ${(source.build.options ?? []).join(" ")}` : ""}`],
    ["not resolved", (source?.missing ?? []).join("; ")],
    ["called from", shownFrames.length ? <ol class="stack">{shownFrames.map(([file, line, name], at) => <li key={at}>{file}:{line} in {name}</li>)}</ol> : ""],
  ];
}

function environmentRows({ manifest }: LaunchFacts): Rows {
  const { platform, tool, device } = manifest;
  const packages = Object.entries(platform.packages ?? {}).map(([name, version]) => `${name} ${version}`);
  return [
    ["captured", `${manifest.created} by ${tool.name} ${tool.version}, format ${manifest.version.major}.${manifest.version.minor}`],
    ["command", manifest.command.join(" ")],
    ["system", `${platform.system} ${platform.machine}, Python ${platform.python || "not known"}`],
    ["driver", device.driver],
    ["packages", packages.join(", ")],
    ...Object.entries(manifest.environment ?? {}).map(([name, value]): Rows[number] => [name, value]),
  ];
}
