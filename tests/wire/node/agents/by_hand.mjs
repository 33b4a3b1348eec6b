import OpenAI from "openai";
import { look, refund } from "./shop.mjs";
import { forget } from "./shop.mjs";

const TOOLS = { look, refund, forget };
const client = new OpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "test", maxRetries: 0 });
const messages = [{ role: "user", content: "Refund order 7" }];
for (;;) {
  const { choices } = await client.chat.completions.create({ model: "gpt-4o", messages });
  const [{ message }] = choices;
  if (!message.tool_calls?.length) {
    console.log(message.content);
    break;
  }
  messages.push(message);
  for (const call of message.tool_calls) {
    let content;
    try {
      content = JSON.stringify(await TOOLS[call.function.name](JSON.parse(call.function.arguments))) ?? "nothing";
    } catch (error) {
      content = String(error);
    }
    messages.push({ role: "tool", tool_call_id: call.id, content });
  }
}
