// Asks with the vendors' Node SDKs. Reads a case a line from stdin, as JSON, and writes a line on what came of it to
// stdout. Cases run side by side, so results come in any order. The first argument is the folder of the SDKs.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.argv[2]}/`);
const load = async (name) => (await import(pathToFileURL(require.resolve(name)))).default;
const SDKS = { openai: await load("openai"), anthropic: await load("@anthropic-ai/sdk") };

// A case: `sdk`, `url`, `options` of the client, `call` (like "chat.completions.create"), `params`, and `final`, the
// method that waits for the end of what a `stream` helper gives. After `patience_ms` it is given up.
async function answered({ sdk, url, options, call, params, final, patience_ms }) {
  const client = new SDKS[sdk]({ baseURL: url, apiKey: "none", ...options });
  const impatience = new AbortController();
  const pieces = [];
  const work = asked(client, { call, params, final, signal: impatience.signal }, pieces);
  work.catch(() => {}); // what is given up may fail later
  const gaveUp = Symbol("gave up");
  let timer;
  const patience = new Promise((resolve) => (timer = setTimeout(resolve, patience_ms ?? 20_000, gaveUp)));
  try {
    const value = await Promise.race([work, patience]);
    return value === gaveUp ? { hangs: true, pieces } : { value, pieces };
  } catch (error) {
    return { error: told(error), pieces };
  } finally {
    clearTimeout(timer);
    impatience.abort();
  }
}

async function asked(client, { call, params, final, signal }, pieces) {
  const names = call.split(".");
  const method = names.pop();
  const owner = names.reduce((part, name) => part[name], client);
  const result = owner[method](params, { signal });
  if (final) return await result[final]();
  const value = await result;
  if (!params.stream || typeof value === "string") return value;
  for await (const piece of value) pieces.push(piece);
  return null;
}

function told(error) {
  return { name: error.constructor.name, message: String(error.message), status: error.status ?? null };
}

for await (const line of createInterface({ input: process.stdin })) {
  const asking = JSON.parse(line);
  answered(asking).then((result) => console.log(JSON.stringify({ id: asking.id, ...result })));
}
