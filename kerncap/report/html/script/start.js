setTheme(remembered() || "system");
dark.addEventListener("change", () => setTheme(theme));
$("#theme").addEventListener("click", nextTheme);
$("#help-open").addEventListener("click", () => $("#help").showModal());
document.addEventListener("keydown", onKey);
document.addEventListener("scroll", markCurrent, { passive: true });
markCurrent();
for (const card of $$(".map")) if ($(".open", card)) whenNear(card, buildMap);
for (const article of $$(".region")) whenNear(article, buildRegion);
if ($("#code")) whenNear($("#code"), buildCode);
const parts = [...$$(".map"), ...$$(".region"), ...$$("#code")];
window.addEventListener("load", () => idle(() => buildWhenIdle(parts)));
window.addEventListener("beforeprint", () => shown.panes.source?.chunks.forEach(buildNow));
for (const link of $$(".goto")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    showPlace(Number(link.dataset.file), Number(link.dataset.line));
  });
}
for (const button of $$(".copy")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText($("code", button.parentElement).textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren($("code", button.parentElement));
    }
  });
}
for (const dialog of $$("dialog")) {
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
let resized = 0;
window.addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { for (const article of $$(".region")) if (!builders.has(article)) buildRegion(article); }, 150);
});
