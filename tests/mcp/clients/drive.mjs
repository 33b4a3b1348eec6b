// Uses every server of a config with the TypeScript client, in the mode that is named, and prints what it got.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, path, mode] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

async function use(entry) {
  const transport = entry.url ? new StreamableHTTPClientTransport(new URL(entry.url)) : new StdioClientTransport(entry);
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(transport);
  const seen = [];
  const onprogress = ({ progress }) => seen.push(progress);
  const result = {
    tools: (await client.listTools()).tools.map((tool) => tool.name),
    add: (await client.callTool({ name: "add", arguments: { a: 1, b: 2 } })).structuredContent,
    count: (await client.callTool({ name: "count", arguments: { n: 2 } }, { onprogress })).content[0].text,
    progress: seen,
    fail: (await client.callTool({ name: "fail", arguments: {} })).isError,
    resource: (await client.readResource({ uri: "note://one" })).contents[0].text,
    prompt: (await client.getPrompt({ name: "greet", arguments: { name: "Bo" } })).messages[0].content.text,
  };
  await client.close();
  return result;
}

const results = {};
for (const [name, entry] of Object.entries(JSON.parse(readFileSync(path)).mcpServers)) results[name] = await use(entry);
console.log(JSON.stringify(results));
process.exit(0);
