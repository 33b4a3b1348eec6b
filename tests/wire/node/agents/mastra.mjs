import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import * as shop from "./shop.mjs";

const inputSchema = z.object({ order: z.number() });
const made = (name) => createTool({ id: `the-${name}`, description: name, inputSchema, execute: shop[name] });
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "test" });
const agent = new Agent({
  id: "shop",
  name: "shop",
  instructions: "Help.",
  model: openai.chat("gpt-4o"),
  tools: { look: made("look"), refund: made("refund") },
  maxRetries: 0,
});
const answer = await agent.generate("Refund order 7", { toolsets: { more: { forget: made("forget") } }, maxSteps: 9 });
console.log(answer.text);
