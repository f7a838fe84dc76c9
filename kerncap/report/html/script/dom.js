// Elements from text alone: nothing here ever parses HTML, so no text can become an element.
function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") made.className = value;
    else if (name === "on") for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US").replace("-", "−");
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e6)
    ? value.toExponential(3)
    : value.toLocaleString("en-US", { maximumSignificantDigits: 5 });
  return text.replaceAll("-", "−").replace("e+", "e");
}
const count = (value) => value.toLocaleString("en-US");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A canvas of as many pixels as the screen has where it is shown; gives its 2d context in CSS pixels.
function sharp(canvas, wide, high) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(wide * ratio));
  canvas.height = Math.max(1, Math.round(high * ratio));
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}
