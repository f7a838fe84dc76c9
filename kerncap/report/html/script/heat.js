// Heat maps of a view's values. Codes of a cell: as heat.py has them.
const BELOW = 0, LOW = 1, HIGH = 65532, ABOVE = 65533, NOT_FINITE = 65534, EMPTY = 65535;
const NAN = 1, INFINITE = 2;

function cellColour(code, flags) {
  if (code === EMPTY) return null;
  if (code === NOT_FINITE || flags) return NOT_A_NUMBER;
  if (code === BELOW) return scale[0];
  if (code === ABOVE) return scale[STEPS - 1];
  return scale[Math.round(((code - LOW) / (HIGH - LOW)) * (STEPS - 1))];
}

function paintCells(canvas, view, colourOf) {
  canvas.width = view.wide;
  canvas.height = view.high;
  const context = canvas.getContext("2d");
  const image = context.createImageData(view.wide, view.high);
  for (let cell = 0; cell < view.wide * view.high; cell++) {
    const colour = colourOf(cell);
    if (colour) image.data.set([...colour, 255], cell * 4);
  }
  context.putImageData(image, 0, 0);
}

const paintState = (canvas, view, state) => paintCells(canvas, view, (cell) => cellColour(state.cells[cell], state.flags[cell]));

function paintDifference(canvas, view, state) {
  const on = rgbOf(css("--changed")), off = rgbOf(css("--untouched"));
  paintCells(canvas, view, (cell) => {
    if (state.cells[cell] === EMPTY) return null;
    const share = view.difference[cell] / 255;
    const t = share ? 0.35 + 0.65 * share : 0;
    return on.map((part, index) => Math.round(off[index] + (part - off[index]) * t));
  });
}

const rgbOf = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

function meanOf(state, cell) {
  const code = state.cells[cell];
  if (code === EMPTY) return "";
  if (code === NOT_FINITE) return "no finite value";
  if (code === BELOW) return `below ${number(state.low)}`;
  if (code === ABOVE) return `above ${number(state.high)}`;
  const value = state.low + ((code - LOW) / (HIGH - LOW)) * (state.high - state.low);
  return `≈ ${number(Number(value.toPrecision(4)))}`;
}

// The indices that a cell shows, as text: "[0, 1, 16–17, 4]".
function indexText(view, cell) {
  const each = (total, parts) => Math.ceil(total / parts);
  const high = each(view.rows, view.high), wide = each(view.columns, view.wide);
  const row = Math.floor(cell / view.wide) * high, column = (cell % view.wide) * wide;
  const lastRow = Math.min(view.rows, row + high) - 1, lastColumn = Math.min(view.columns, column + wide) - 1;
  if (view.wrapped) {
    const from = row * view.columns + column, to = Math.min(view.elements - 1, lastRow * view.columns + lastColumn);
    return to > from ? `${indexOf(view.shape, from)} to ${indexOf(view.shape, to)}` : indexOf(view.shape, from);
  }
  const span = (a, b) => (a === b ? `${a}` : `${a}–${b}`);
  if (view.shape.length === 0) return "[]";
  const lead = view.shape.slice(0, -1), first = unravel(lead, row), last = unravel(lead, lastRow);
  return `[${[...first.map((value, at) => span(value, last[at])), span(column, lastColumn)].join(", ")}]`;
}

function unravel(shape, position) {
  const found = [];
  for (let at = shape.length - 1; at >= 0; at--) {
    found.unshift(position % shape[at]);
    position = Math.floor(position / shape[at]);
  }
  return found;
}
const indexOf = (shape, position) => `[${unravel(shape, position).join(", ")}]`;

// --- the cards ------------------------------------------------------------------------------------------

async function buildMap(card) {
  const view = await data(`data-view-${card.dataset.view}`);
  if (!view) return;
  const states = [["before", view.pre], ["after", view.post]].filter(([, state]) => state);
  const pictures = $(".pictures", card);
  pictures.classList.toggle("one", states.length === 1);
  for (const [name, state] of states) {
    const canvas = el("canvas", { "aria-hidden": "true" });
    paintState(canvas, view, state);
    pictures.append(el("figure", {}, canvas, el("figcaption", {}, states.length > 1 ? name : "before and after")));
  }
  const state = view.post || view.pre;
  $(".stats", card).textContent = statistics(state);
  $(".open", card).addEventListener("click", () => openView(card));
}

function statistics(state) {
  const parts = [];
  if (state.min !== null) {
    parts.push(`${number(state.min)} … ${number(state.max)}`, `mean ${number(Number(state.mean.toPrecision(4)))}`);
  }
  if (state.nan) parts.push(`${count(state.nan)} NaN`);
  if (state.infinite) parts.push(`${count(state.infinite)} Inf`);
  return parts.join(" · ");
}

// --- one view, large ------------------------------------------------------------------------------------

let openCard = null;

async function openView(card) {
  openCard = card; // and the dialog open, before anything is waited for: the next key may be there already
  const dialog = $("#view-dialog"), body = $("#view-body");
  if (!dialog.open) {
    body.replaceChildren();
    dialog.showModal();
  }
  await buildNow(card);
  const view = await data(`data-view-${card.dataset.view}`);
  if (!view || openCard !== card) return;
  $("#view-title").textContent = view.name;
  $("#view-type").textContent = describe(view);
  const readout = el("p", { class: "readout", "aria-live": "polite" }, "Point at a cell, or use the arrow keys.");
  const states = [["before", view.pre], ["after", view.post]].filter(([, state]) => state);
  const figures = states.map(([name, state]) => bigState(states.length > 1 ? name : "before and after", view, state));
  if (view.difference && view.changed < view.sampled) figures.push(bigDifference(view));
  const all = view.difference && view.changed === view.sampled;
  body.replaceChildren(...[
    el("div", { class: "states" }, ...figures), all ? el("p", { class: "stats" }, "Every element that was looked at is changed.") : null,
    readout, numbers(states),
  ].filter(Boolean));
  readCells(body, view, readout);
}

function describe(view) {
  const parts = [`${view.dtype}[${view.shape.join(", ")}]`, `${count(view.elements)} elements`];
  if (view.sampled < view.elements) parts.push(`${count(view.sampled)} of them looked at, evenly spread`);
  if (view.wrapped) parts.push(`wrapped, ${count(view.columns)} a row`);
  if (view.rows > view.high || view.columns > view.wide)
    parts.push(`${Math.ceil(view.rows / view.high)} × ${Math.ceil(view.columns / view.wide)} elements a cell, their mean`);
  if (view.note) parts.push(view.note);
  return parts.join(" · ");
}

function shaped(view) {
  const canvas = el("canvas", { class: "big", "aria-hidden": "true" });
  const ratio = Math.min(1.1, Math.max(0.3, view.high / view.wide));
  canvas.style.aspectRatio = String(1 / ratio);
  return canvas;
}

function bigState(name, view, state) {
  const canvas = shaped(view);
  paintState(canvas, view, state);
  const bar = el("canvas", { "aria-hidden": "true" });
  bar.width = STEPS;
  bar.height = 1;
  const context = bar.getContext("2d");
  scale.forEach((colour, step) => {
    context.fillStyle = `rgb(${colour.join(" ")})`;
    context.fillRect(step, 0, 1, 1);
  });
  const remark = state.nan + state.infinite ? "vermilion: NaN or Inf" : "";
  const caption = el("figcaption", {}, el("span", {}, name), el("span", {}, remark));
  const figure = el("figure", {}, caption, canvas);
  if (state.min === null) return figure;
  const ends = [state.min < state.low ? "≤ " : "", state.max > state.high ? "≥ " : ""];
  figure.append(
    el("div", { class: "scale" },
      el("span", {}, ends[0] + number(state.low)), bar, el("span", {}, ends[1] + number(state.high))),
    histogram(state),
  );
  return figure;
}

function histogram(state) {
  const canvas = el("canvas", { class: "histogram", "aria-hidden": "true" });
  const most = Math.max(1, ...state.histogram), wide = 320, high = 42, each = wide / Math.max(1, state.histogram.length);
  const context = sharp(canvas, wide, high);
  context.fillStyle = css("--data");
  state.histogram.forEach((value, bin) => {
    const height = value ? Math.max(1, (value / most) * (high - 2)) : 0;
    context.fillRect(bin * each + 0.5, high - height, each - 1, height);
  });
  return canvas;
}

function bigDifference(view) {
  const canvas = shaped(view);
  paintDifference(canvas, view, view.pre);
  const first = view.first_changed ? `, the first at [${view.first_changed.join(", ")}]` : "";
  return el("figure", {}, el("figcaption", {}, "where they differ"), canvas,
    el("p", { class: "stats" }, `${count(view.changed)} of ${count(view.sampled)} elements${first}`));
}

function numbers(states) {
  const rows = [["min", "min"], ["max", "max"], ["mean", "mean"], ["zeros", "zeros"], ["NaN", "nan"], ["Inf", "infinite"]];
  const head = el("tr", {}, el("th", {}, ""), ...states.map(([name]) => el("th", {}, states.length > 1 ? name : "value")));
  return el("table", { class: "numbers" }, el("thead", {}, head), el("tbody", {}, ...rows.map(([title, key]) =>
    el("tr", {}, el("td", {}, title), ...states.map(([, state]) => el("td", {}, number(state[key])))))));
}

function readCells(body, view, readout) {
  let current = -1;
  const tell = (cell) => {
    current = cell;
    const value = (state) => meanOf(state, cell) + flagText(state.flags[cell]);
    const same = !view.difference || !view.difference[cell];
    const told = same ? `${value(view.pre)}, not changed` : `before ${value(view.pre)} → after ${value(view.post)}`;
    readout.textContent = view.pre.cells[cell] === EMPTY ? "" : `${indexText(view, cell)}: ${told}`;
  };
  for (const canvas of $$("canvas.big", body)) {
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * view.wide);
      const row = Math.floor(((event.clientY - box.top) / box.height) * view.high);
      if (column >= 0 && column < view.wide && row >= 0 && row < view.high) tell(row * view.wide + column);
    });
  }
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -view.wide, ArrowDown: view.wide };
  $("#view-dialog").onkeydown = (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = current < 0 ? 0 : current + steps[event.key];
    if (next >= 0 && next < view.wide * view.high) tell(next);
  };
}

const flagText = (flags) => [flags & NAN ? " (NaN)" : "", flags & INFINITE ? " (Inf)" : ""].join("");

function stepView(by) {
  const cards = $$(".map").filter((card) => $(".open", card));
  const at = cards.indexOf(openCard);
  const next = cards[at + by];
  if (next) openView(next);
}
