// `node firefox.mjs FIREFOX PAGE TAB,TAB… LINKED ARCHIVE…`: open each archive in Firefox, over WebDriver BiDi, and each
// tab. Prints one JSON document: for each archive its tabs' texts, or the line that it was refused with. Of LINKED, one
// of the archives, also the lines that are marked in the last pane while the pointer is on the first pane's last line,
// and how many colours its last picture has.
import { createRequire } from "node:module";

const { default: puppeteer } = await import(
  createRequire(new URL("../../kerncap/viewer/package.json", import.meta.url)).resolve("puppeteer-core")
);
const [executablePath, url, tabs, linked, ...archives] = process.argv.slice(2);
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true, protocolTimeout: 120_000 });
const page = await browser.newPage();
const said = [];
page.on("console", (message) => said.push(message.text()));
page.on("pageerror", (error) => said.push(String(error)));
await page.goto(url);

// Functions of the page wait themselves: those that Puppeteer makes to wait with are blocked by the page's policy.
const settled = () =>
  page.evaluate(async () => {
    while (document.querySelector(".status").textContent !== "") await new Promise(requestAnimationFrame);
  });
const shown = () =>
  page.evaluate(async () => {
    const pending = () => [...document.querySelectorAll("[role=tabpanel] [role=status]")];
    while (pending().some((each) => each.textContent === "Reading…")) await new Promise(requestAnimationFrame);
  });

async function look(archive) {
  const input = await page.$("input[type=file]:not([webkitdirectory])");
  await input.uploadFile(archive);
  await settled();
  const refused = await page.$("[role=alert]");
  if (refused) return { refused: await refused.evaluate((each) => each.textContent) };
  const found = { tabs: {} };
  for (const name of tabs.split(",")) {
    const tab = (name) => [...document.querySelectorAll("[role=tab]")].find((each) => each.textContent === name);
    await (await page.evaluateHandle(tab, name)).click();
    await shown();
    found.tabs[name] = await page.$eval("[role=tabpanel]:not([hidden])", (each) => each.innerText);
    if (archive !== linked) continue;
    if (name === "Values") found.colours = await page.evaluate(colours);
    if (name === "Code") found.marked = await marked();
  }
  return found;
}

async function marked() {
  await (await page.$$(".pane:first-child .cm-line")).at(-1).hover();
  return page.evaluate(async () => {
    const lines = () => [...document.querySelectorAll(".pane:last-child .cm-line.marked")];
    while (lines().length === 0) await new Promise(requestAnimationFrame);
    return lines().map((each) => each.textContent);
  });
}

/** In the page: of the last picture, once it is painted. */
async function colours() {
  for (;;) {
    const canvas = [...document.querySelectorAll(".picture > canvas")].at(-1);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set(new Uint32Array(data.buffer)).size;
    if (found > 1) return found;
    await new Promise(requestAnimationFrame);
  }
}

const answers = {};
for (const archive of archives) answers[archive] = await look(archive);
await browser.close();
console.log(JSON.stringify({ answers, said }));
