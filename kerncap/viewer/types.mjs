// The types of manifests, from the schemas that kerncap/format/schema.py is exported to.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const format = new URL("../format/", import.meta.url);
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
for (const [name, title] of [["manifest", "Manifest"], ["range", "RangeManifest"]]) {
  const schema = plain(JSON.parse(await readFile(new URL(`${name}.schema.json`, format), "utf8")));
  const text = await compile({ ...schema, title }, title, { additionalProperties: false, bannerComment: "", ignoreMinAndMaxItems: true });
  await writeFile(new URL(`${name}.ts`, out), text);
}
