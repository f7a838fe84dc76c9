// The source on one side, a compiled stage on the other; lines are linked, the sanitizer's notes stand between.
const CHUNK = 250; // lines that are built at once
const shown = { code: null, file: 0, stage: 0, panes: {} };

async function buildCode(root) {
  const code = await data("data-code");
  shown.code = code;
  const wanted = ["ttgir", "ptx", "amdgcn"].map((name) => code.stages.findIndex((stage) => stage.stage === name));
  shown.stage = wanted.find((index) => index >= 0) ?? 0;
  const two = code.files.length > 0 && code.stages.length > 0;
  root.classList.toggle("two", two);
  const bars = el("div", { class: "bar-row" }), panes = el("div", { class: "panes" });
  const files = code.files.map((file) => file.name.replace(/^source\//, ""));
  if (files.length) addSide("source", files, showFile, bars, panes);
  if (code.stages.length) addSide("stage", code.stages.map((stage) => stage.stage), showStage, bars, panes);
  root.replaceChildren(bars, panes);
  if (code.files.length) showFile(0);
  if (code.stages.length) showStage(shown.stage);
}

function addSide(side, names, show, bars, panes) {
  const tabs = names.map((name, index) =>
    el("button", { type: "button", role: "tab", "aria-selected": "false", on: { click: () => show(index) } }, name));
  const pane = el("div", {
    class: "pane", tabindex: "0", role: "region", "aria-label": side === "source" ? "Source" : "Compiled stage",
    "data-side": side, on: { keydown: paneKey, click: paneClick },
  });
  bars.append(el("div", { class: "tabs", role: "tablist" }, ...tabs));
  panes.append(pane);
  shown.panes[side] = { pane, tabs, chunks: [], rows: new Map(), here: 0 };
}

function showFile(index) {
  const file = shown.code.files[index];
  shown.file = index;
  const notes = new Map();
  for (const note of shown.code.notes) {
    if (note.file === index) notes.set(note.line, [...(notes.get(note.line) || []), note]);
  }
  const about = [];
  if (file.original && file.original !== file.name) about.push(`as the application had it: ${file.original}`);
  if (file.cut) about.push(`cut: ${file.cut}`);
  const linked = linkedLines(index);
  fill("source", index, file.lines, about, (line) => (
    { language: file.language, linked: linked.has(line), notes: notes.get(line) }
  ));
}

function showStage(index) {
  const stage = shown.code.stages[index];
  shown.stage = index;
  fill("stage", index, stage.lines, stage.notes, (line) => ({
    language: stage.image ? "" : LANGUAGE_OF[stage.stage] || "asm",
    linked: Boolean(stage.places[line - 1]),
    notes: undefined,
  }));
  if (shown.panes.source) refreshLinks();
}

function linkedLines(file) {
  const stage = shown.code.stages[shown.stage], found = new Set();
  if (stage) stage.places.forEach((line, at) => line && stage.files[at] === file && found.add(line));
  return found;
}

function refreshLinks() {
  const linked = linkedLines(shown.file);
  for (const [line, row] of shown.panes.source.rows) row.classList.toggle("linked", linked.has(line));
}

// --- lines ----------------------------------------------------------------------------------------------

function fill(side, index, lines, about, of) {
  const state = shown.panes[side];
  state.tabs.forEach((tab, at) => tab.setAttribute("aria-selected", String(at === index)));
  state.rows.clear();
  state.chunks = [];
  state.here = 0;
  state.count = lines.length;
  const holder = el("div", { class: "lines" });
  for (let start = 0; start < lines.length; start += CHUNK) {
    const part = lines.slice(start, start + CHUNK);
    const chunk = el("div", {});
    chunk.style.minHeight = `${part.length * 20}px`;
    const build = () => {
      chunk.style.minHeight = "";
      chunk.append(...part.flatMap((text, at) => row(state, start + at + 1, text, of(start + at + 1))));
    };
    state.chunks.push(chunk);
    if (start === 0) build();
    else whenNear(chunk, build);
    holder.append(chunk);
  }
  state.pane.replaceChildren(...about.map((text) => el("p", { class: "remark" }, text)), holder);
  state.pane.scrollTop = 0;
  state.pane.style.setProperty("--note", `${Math.max(240, state.pane.clientWidth - 80)}px`);
}

function row(state, line, text, how) {
  const flagged = how.notes && how.notes.some((note) => note.level === "finding");
  const made = el("div", { class: `ln${how.linked ? " linked" : ""}${flagged ? " flagged" : ""}`, "data-line": line },
    el("i", {}, String(line)), el("span", {}, ...highlighted(text, how.language)));
  state.rows.set(line, made);
  return how.notes ? [made, ...how.notes.map(noteElement)] : [made];
}

function noteElement(note) {
  const title = note.title || note.check;
  const made = el("div", { class: `note ${note.level}`, id: `note-${note.id}`, tabindex: "-1" });
  const head = { unproven: `unproven, ${title}: `, noted: `worth knowing, ${title}: ` }[note.level] || `${title}: `;
  made.append(el("p", {}, el("strong", {}, head), note.message));
  const facts = note.facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  if (facts.length) made.append(el("dl", {}, ...facts));
  return made;
}

function rowOf(side, line) {
  const state = shown.panes[side];
  const chunk = state && state.chunks[Math.floor((line - 1) / CHUNK)];
  if (chunk && builders.has(chunk)) buildNow(chunk);
  return state ? state.rows.get(line) : undefined;
}

// --- links ----------------------------------------------------------------------------------------------

function paneClick(event) {
  const line = event.target.closest(".ln");
  if (line) mark(event.currentTarget.dataset.side, Number(line.dataset.line));
}

function paneKey(event) {
  const side = event.currentTarget.dataset.side, state = shown.panes[side];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    goTo(side, Math.min(state.count, Math.max(1, state.here + step)));
  } else if (event.key === "Enter" && state.here) {
    event.preventDefault();
    mark(side, state.here);
  }
}

function goTo(side, line) {
  const state = shown.panes[side], target = rowOf(side, line);
  if (!target) return;
  const old = state.rows.get(state.here);
  if (old) old.classList.remove("here");
  state.here = line;
  target.classList.add("here");
  reveal(state.pane, target, false);
}

// Scrolls the pane alone: the page stays where it is.
function reveal(pane, target, centre) {
  const top = target.getBoundingClientRect().top - pane.getBoundingClientRect().top;
  if (!centre && top > 20 && top < pane.clientHeight - 40) return;
  pane.scrollTop += top - pane.clientHeight / 3;
}

function mark(side, line) {
  const stage = shown.code.stages[shown.stage];
  for (const old of $$(".ln.on")) old.classList.remove("on");
  const source = side === "source" ? line : stage ? stage.places[line - 1] : 0;
  const file = side === "source" ? shown.file : stage ? stage.files[line - 1] : -1;
  goTo(side, line);
  if (!source || !stage) {
    const own = rowOf(side, line);
    if (own) own.classList.add("on");
    return;
  }
  if (side === "stage" && file >= 0 && file !== shown.file) showFile(file);
  const lines = stage.places.flatMap((place, at) => (place === source && stage.files[at] === file ? [at + 1] : []));
  lines.slice(0, 2000).forEach((each) => rowOf("stage", each)?.classList.add("on"));
  const own = shown.panes.source && rowOf("source", source);
  if (own) own.classList.add("on");
  if (side === "source" && lines.length) reveal(shown.panes.stage.pane, rowOf("stage", lines[0]), true);
  if (side === "stage" && own) reveal(shown.panes.source.pane, own, true);
}

// --- notes ----------------------------------------------------------------------------------------------

async function showPlace(file, line) {
  await buildNow($("#code"));
  if (file !== shown.file) showFile(file);
  $("#source").scrollIntoView();
  mark("source", line);
  const target = rowOf("source", line);
  if (target) reveal(shown.panes.source.pane, target, true);
}

let currentNote = -1;

async function stepNote(by) {
  const code = await data("data-code");
  const placed = code ? code.notes.filter((note) => note.line) : [];
  if (!placed.length) return;
  currentNote = (currentNote + by + placed.length) % placed.length;
  const note = placed[currentNote];
  await showPlace(note.file, note.line);
  $(`#note-${note.id}`)?.focus({ preventScroll: true });
}

function stepStage(by) {
  const stages = shown.code ? shown.code.stages.length : 0;
  if (stages) showStage((shown.stage + by + stages) % stages);
}
