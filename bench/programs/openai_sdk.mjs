// An agent with the SDK of OpenAI for Node.
import OpenAI from "openai";

const tool = { type: "function", function: { name: "find", parameters: { type: "object" } } };
const client = new OpenAI({ timeout: 10_000, maxRetries: 2 });
const messages = [{ role: "user", content: "Where is order 42?" }];
let message;
for (let turn = 0; turn < Number(process.argv[2]); turn++) {
  const answer = await client.chat.completions.create({ model: "gpt-4o", messages, tools: [tool] });
  message = answer.choices[0].message;
  if (!message.tool_calls?.length) break;
  messages.push(message);
  for (const call of message.tool_calls) messages.push({ role: "tool", tool_call_id: call.id, content: "nothing" });
}
console.log(message.content);
