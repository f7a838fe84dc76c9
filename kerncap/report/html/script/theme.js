// Light, dark, or as the system has it; remembered where the browser lets a page remember.
const THEMES = ["system", "light", "dark"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = "system";

function remembered() {
  try {
    return localStorage.getItem("kerncap-theme");
  } catch {
    return null; // a page from a file may have no storage
  }
}

function setTheme(name) {
  theme = THEMES.includes(name) ? name : "system";
  const isDark = theme === "dark" || (theme === "system" && dark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  const button = $("#theme");
  if (button) button.textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem("kerncap-theme", theme);
  } catch {
    // stays for this visit
  }
  for (const article of $$(".region")) if (!builders.has(article)) buildRegion(article);
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
}
