// Asks over WebSocket with OpenAI's SDK for Node, and prints each event that it hears: node realtime.mjs URL SDKS
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, sdks] = process.argv.slice(2);
const require = createRequire(`${sdks}/node_modules/`);
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const { default: OpenAI } = await load("openai");
const { OpenAIRealtimeWS } = await load("openai/realtime/ws");

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-any" });
const realtime = new OpenAIRealtimeWS({ model: "gpt-realtime", options: { rejectUnauthorized: false } }, client);
const content = [{ type: "input_text", text: "say hello" }];
realtime.socket.on("open", () => {
  realtime.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  realtime.send({ type: "response.create" });
});
realtime.on("event", (event) => {
  console.log(JSON.stringify(event));
  if (event.type === "response.done") realtime.close();
});
realtime.on("error", (error) => {
  console.log(JSON.stringify({ error: error.message }));
  process.exitCode = 1;
});
realtime.socket.on("close", (code) => console.log(JSON.stringify({ close: code })));
