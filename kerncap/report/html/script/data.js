// Blocks of data that stand inert in the page. Each is parsed once, when something asks for it first.
const blocks = new Map();

function data(id) {
  if (!blocks.has(id)) blocks.set(id, parse(document.getElementById(id)));
  return blocks.get(id);
}

async function parse(element) {
  if (!element) return null;
  const text = element.textContent;
  if (element.dataset.packed !== "deflate") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// Calls `build` once: as soon as the element is near the window, or when there is nothing else to do, so that
// what is printed or searched is there too.
const builders = new Map();
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) buildNow(entry.target);
}, { rootMargin: "600px 0px" });

function whenNear(element, build) {
  builders.set(element, build);
  near.observe(element);
}

const idle = window.requestIdleCallback || ((call) => setTimeout(call, 50));

function buildWhenIdle(elements) {
  const next = elements.find((element) => builders.has(element));
  if (next) idle(() => buildNow(next).then(() => buildWhenIdle(elements)));
}

function buildNow(element) {
  const build = builders.get(element);
  if (!build) return Promise.resolve();
  builders.delete(element);
  near.unobserve(element);
  return Promise.resolve(build(element));
}
