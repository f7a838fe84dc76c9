// One file, page.html, with everything in it: any static host can serve it, and a browser can open it from a disk.
import { createHash } from "node:crypto";
import { rename, readFile, writeFile } from "node:fs/promises";
import preact from "@preact/preset-vite";
import { defineConfig, type Plugin } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

const MARK = "<!-- vite.config.ts puts the policy here -->";

/** The page may run its own script, its worker and nothing else; it may ask for nothing, so nothing can leave it. */
function policy(): Plugin {
  return {
    name: "policy",
    apply: "build",
    enforce: "post",
    async writeBundle({ dir }) {
      const html = await readFile(`${dir}/index.html`, "utf8");
      const scripts = [...html.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map(([, text]) => text!);
      const digests = scripts.map((text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`);
      // Styles by script (CodeMirror's, uPlot's) have no digest; without img-src and font-src they fetch nothing.
      const rules = [
        "default-src 'none'", `script-src ${digests.join(" ")}`, "style-src 'unsafe-inline'", "worker-src blob:",
        "img-src data:", "connect-src 'none'", "base-uri 'none'", "form-action 'none'",
      ];
      await writeFile(`${dir}/index.html`, html.replace(MARK, () => `<meta http-equiv="Content-Security-Policy" content="${rules.join("; ")}" />`));
      await rename(`${dir}/index.html`, "page.html");
    },
  };
}

export default defineConfig({
  plugins: [preact(), viteSingleFile({ removeViteModuleLoader: true }), policy()],
  build: { outDir: "../../build/viewer/page", emptyOutDir: true, target: "es2024", chunkSizeWarningLimit: 2000 },
  // @cfworker/json-schema makes an address of it that a worker from a blob has not; what it then takes is never asked.
  define: { "self.location": "undefined" },
  worker: { format: "iife" }, // a browser lets a page from a disk start no module
});
