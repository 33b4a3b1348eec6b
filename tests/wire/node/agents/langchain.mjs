import { StructuredTool, tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";
import { z } from "zod";
import { forget, look, refund } from "./shop.mjs";

const schema = z.object({ order: z.number() });
class Refund extends StructuredTool {
  name = "refund";
  description = "Refund";
  schema = schema;
  async _call(given) {
    return refund(given);
  }
}
const tools = [
  tool(look, { name: "look", description: "Look", schema }),
  new Refund(),
  tool(forget, { name: "forget", description: "Forget", schema }),
];
const model = new ChatOpenAI({ model: "gpt-4o", apiKey: "test", maxRetries: 0, configuration: { baseURL: process.env.OPENAI_BASE_URL } });
const agent = createAgent({ model, tools });
const { messages } = await agent.invoke({ messages: [{ role: "user", content: "Refund order 7" }] });
console.log(messages.at(-1).content);
