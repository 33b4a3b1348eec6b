// A support agent on the OpenAI SDK for Node: it answers customers, and refunds orders.
import { pathToFileURL } from "node:url";
import OpenAI from "openai";

const SYSTEM = "You answer customers of a shop. Refund orders that never came.";
const TOOLS = [
  {
    type: "function",
    function: {
      name: "refund",
      description: "Pay an order back.",
      parameters: { type: "object", properties: { order: { type: "integer" } }, required: ["order"] },
    },
  },
];

/** Pay an order back. Here it only says so. */
function refund({ order }) {
  return `order ${order} is refunded`;
}

/** Ask the model, and run the tools that it asks for, until it answers. */
export async function answer(question, client = new OpenAI({ timeout: 10_000 })) {
  const messages = [
    { role: "system", content: SYSTEM },
    { role: "user", content: question },
  ];
  for (let turn = 0; turn < 5; turn += 1) {
    const { choices } = await client.chat.completions.create({ model: "gpt-4o-mini", messages, tools: TOOLS });
    const { content, tool_calls: calls } = choices[0].message;
    if (!calls?.length) return content ?? "";
    messages.push({ role: "assistant", tool_calls: calls });
    for (const { id, function: asked } of calls) {
      const isKnown = asked.name === "refund";
      const content = isKnown ? refund(JSON.parse(asked.arguments)) : `error: there is no tool ${asked.name}`;
      messages.push({ role: "tool", tool_call_id: id, content });
    }
  }
  throw new Error("no answer after five turns");
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(await answer(process.argv.slice(2).join(" ") || "Order 42 never came."));
}
