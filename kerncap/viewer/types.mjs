// The types of manifests and of results, from the schemas that the Python code is exported to.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const SCHEMAS = {
  Manifest: "../format/manifest.schema.json", RangeManifest: "../format/range.schema.json",
  Sanitize: "../../docs/schemas/sanitize.json", Verify: "../../docs/schemas/verify.json",
};
const out = new URL("src/format/generated/", import.meta.url);

// The compiler knows no tuples of this dialect: a list of any of its items is near enough.
function plain(node) {
  if (Array.isArray(node)) return node.map(plain);
  if (node === null || typeof node !== "object") return node;
  const { prefixItems, ...rest } = node;
  if (prefixItems) rest.items = { anyOf: prefixItems };
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, plain(value)]));
}

await mkdir(out, { recursive: true });
for (const [title, path] of Object.entries(SCHEMAS)) {
  const schema = plain(JSON.parse(await readFile(new URL(path, import.meta.url), "utf8")));
  const text = await compile({ ...schema, title }, title, { additionalProperties: false, bannerComment: "", ignoreMinAndMaxItems: true });
  const file = title === "RangeManifest" ? "range" : title.toLowerCase();
  await writeFile(new URL(`${file}.ts`, out), text);
}
