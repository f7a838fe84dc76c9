// The keyboard, and which section is the current one.
const sections = $$("main > section");

function goToSection(section) {
  if (!section) return;
  section.scrollIntoView();
  section.focus({ preventScroll: true });
}

function currentSection() {
  const found = sections.filter((section) => section.getBoundingClientRect().top < 120);
  const atEnd = window.scrollY > 0 && window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 2;
  return atEnd ? sections.at(-1) : found.at(-1) || sections[0];
}

function stepSection(by) {
  const focused = sections.indexOf(document.activeElement);
  const at = focused >= 0 ? focused : sections.indexOf(currentSection());
  goToSection(sections[Math.min(sections.length - 1, Math.max(0, at + by))]);
}

function markCurrent() {
  const current = currentSection();
  for (const link of $$(".rail a")) {
    if (link.hash === `#${current.id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

const KEYS = {
  j: () => stepSection(1), k: () => stepSection(-1), t: nextTheme, "?": () => $("#help").showModal(),
  n: () => stepNote(1), p: () => stepNote(-1), "[": () => stepStage(-1), "]": () => stepStage(1),
  v: () => { const card = $$(".map").find((each) => $(".open", each)); if (card) openView(card); },
};
const VIEW_KEYS = { h: () => stepView(-1), l: () => stepView(1) };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const open = $("dialog[open]");
  const table = open ? (open.id === "view-dialog" ? VIEW_KEYS : {}) : KEYS;
  if (/^[0-9]$/.test(event.key) && !open) goToSection(sections[(Number(event.key) + 9) % 10]);
  else if (table[event.key]) table[event.key]();
  else return;
  event.preventDefault();
}
