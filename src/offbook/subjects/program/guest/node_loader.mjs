// Changes modules that are imported, in the thread that Node before 22.15 has for that: see node_sources.cjs.

import { createRequire } from "node:module";

let sources;

export function initialize(settings) {
  const { Sources } = createRequire(import.meta.url)("./node_sources.cjs");
  sources = new Sources(settings);
}

export async function load(url, context, nextLoad) {
  const loaded = await nextLoad(url, context);
  if (!loaded.format?.startsWith("module") || loaded.source == null || !sources.isKnown(url)) return loaded;
  const source = sources.changed(url, Buffer.from(loaded.source).toString(), true);
  return source === undefined ? loaded : { ...loaded, source };
}
