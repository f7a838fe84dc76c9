// The page: what is open, and the tabs that show it.
import * as Tabs from "@radix-ui/react-tabs";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "../work/results.ts";
import type { Facts, Given } from "../work/worker.ts";
import { CodeTab } from "./code.tsx";
import { CompareTab } from "./compare.tsx";
import { LaunchTab } from "./launch.tsx";
import { MemoryTab } from "./memory.tsx";
import { RangeTab } from "./range.tsx";
import { ofDrop, ofFiles, ofServer, onFailure, reader } from "./reader.ts";
import { sizeText } from "./text.ts";
import { ValuesTab } from "./values.tsx";

export function App() {
  const [open, setOpen] = useState<Facts[]>([]); // the last one that was opened comes first
  const [results, setResults] = useState<Result[]>([]); // of all kernels
  const [launch, setLaunch] = useState(0);
  const [tab, setTab] = useState("launch");
  const [problem, setProblem] = useState("");
  const [reading, setReading] = useState(0); // how many were given and are not shown yet

  async function take(found: Promise<Given[]>) {
    setReading((before) => before + 1);
    setProblem("");
    try {
      for (const given of await found) {
        if (given.length === 1 && given[0]!.path.endsWith(".json")) {
          const more = await reader.results(given);
          setResults((before) => [...before, ...more]);
          continue;
        }
        const facts = await reader.open(given);
        setOpen((before) => [facts, ...before].slice(0, 2));
        setLaunch(0);
        setTab(facts.range ? "range" : "launch");
      }
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setReading((before) => Math.max(0, before - 1));
  }

  useEffect(() => {
    onFailure((problem) => { setProblem(problem); setReading(0); });
    void take(ofServer());
  }, []);
  useEffect(() => {
    const over = (event: DragEvent) => event.preventDefault();
    const drop = (event: DragEvent) => {
      event.preventDefault();
      if (event.dataTransfer) void take(ofDrop(event.dataTransfer.items));
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, []);

  const [first, second] = open;
  const shown = first?.launches[launch];
  const kernel = shown?.manifest.kernel;
  const own = results.filter((each) => each.kernel === kernel?.name || each.kernel === kernel?.qualified_name);
  return (
    <>
      <header>
        <h1>kerncap viewer</h1>
        <Chooser take={take} />
      </header>
      <p role="status" class="status">{reading > 0 ? "Reading…" : ""}</p>
      {problem && <p role="alert" class="problem">{problem}</p>}
      <main>
        {results.length > own.length && shown && <p role="status" class="soft">Some results are of other kernels and are not shown.</p>}
        {!first || !shown ? <Welcome /> : (
          <>
            <Heading facts={first} launch={launch} setLaunch={setLaunch} />
            <Tabs.Root value={tab} onValueChange={setTab} key={`${first.id}`}>
              <Tabs.List class="tabs" aria-label="Views of the reproducer">
                {first.range && <Tabs.Trigger value="range">Launches</Tabs.Trigger>}
                <Tabs.Trigger value="launch">Launch</Tabs.Trigger>
                <Tabs.Trigger value="code">Code</Tabs.Trigger>
                <Tabs.Trigger value="values">Values</Tabs.Trigger>
                <Tabs.Trigger value="memory">Memory</Tabs.Trigger>
                {second && <Tabs.Trigger value="compare">Compare</Tabs.Trigger>}
              </Tabs.List>
              {first.range && (
                <Tabs.Content value="range"><RangeTab facts={first} select={(number) => { setLaunch(number); setTab("launch"); }} /></Tabs.Content>
              )}
              <Tabs.Content value="launch"><LaunchTab facts={first} launch={shown} results={own} /></Tabs.Content>
              <Tabs.Content value="code"><CodeTab key={`${first.id}.${launch}.${own.length}`} id={first.id} launch={launch} notes={own.flatMap((each) => each.notes)} /></Tabs.Content>
              <Tabs.Content value="values"><ValuesTab key={`${first.id}.${launch}`} id={first.id} launch={shown} /></Tabs.Content>
              <Tabs.Content value="memory"><MemoryTab key={`${first.id}.${launch}`} id={first.id} launch={launch} /></Tabs.Content>
              {second && <Tabs.Content value="compare"><CompareTab one={first} launch={launch} other={second} /></Tabs.Content>}
            </Tabs.Root>
          </>
        )}
      </main>
    </>
  );
}

function Chooser({ take }: { take: (found: Promise<Given[]>) => void }) {
  const [file, folder] = [useRef<HTMLInputElement>(null), useRef<HTMLInputElement>(null)];
  const chosen = (each: (files: File[]) => Given[]) => (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    take(Promise.resolve(each([...(input.files ?? [])])));
    input.value = ""; // so that the same file can be chosen again
  };
  return (
    <div class="chooser">
      <button type="button" onClick={() => file.current?.click()}>Open file…</button>
      <button type="button" onClick={() => folder.current?.click()}>Open folder…</button>
      <input ref={file} type="file" accept=".zip,.json" multiple hidden aria-label="Packed reproducers, and results" onChange={chosen((files) => files.map((each) => ofFiles([each])))} />
      <input ref={folder} type="file" hidden aria-label="Folder of a reproducer" onChange={chosen((files) => [ofFiles(files)])} {...{ webkitdirectory: true }} />
    </div>
  );
}

function Welcome() {
  return (
    <section class="welcome">
      <h2>Drop a reproducer here</h2>
      <p>
        A file from <code>kerncap pack</code>, or the folder itself. Drop a second one to compare them, and the <code>--json</code> of
        sanitize, verify or replay to see it next to the code. Everything is read in
        this browser: nothing is sent anywhere, and nothing in the reproducer is executed.
      </p>
    </section>
  );
}

function Heading({ facts, launch, setLaunch }: { facts: Facts; launch: number; setLaunch: (number: number) => void }) {
  const [checked, setChecked] = useState("");
  const kernel = facts.launches[launch]!.manifest.kernel;
  useEffect(() => setChecked(""), [facts.id]);
  async function verify() {
    const { proxy } = await import("comlink");
    try {
      setChecked("checking…");
      await reader.verify(facts.id, proxy((bytes: number) => setChecked(`checking… ${sizeText(bytes)}`)));
      setChecked("all digests are right");
    } catch (error) {
      setChecked(error instanceof Error ? error.message : String(error));
    }
  }
  return (
    <div class="heading">
      <h2><code>{kernel.name}</code></h2>
      <p>
        {facts.name}, {sizeText(facts.bytes)}, manifest <code title={facts.manifestSha256}>{facts.manifestSha256.slice(0, 8)}</code>{" "}
        <button type="button" onClick={() => void verify()}>Check every digest</button> <span role="status">{checked}</span>
      </p>
      {facts.range && (
        <label>
          Launch{" "}
          <select value={launch} onChange={(event) => setLaunch(Number(event.currentTarget.value))}>
            {facts.launches.map((one) => <option key={one.number} value={one.number}>{one.number}: {one.manifest.kernel.name}</option>)}
          </select>
        </label>
      )}
    </div>
  );
}
