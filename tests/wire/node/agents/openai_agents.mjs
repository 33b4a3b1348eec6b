import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { forget, look, refund } from "./shop.mjs";

setTracingDisabled(true);
const parameters = z.object({ order: z.number() });
const client = new OpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "test", maxRetries: 0 });
const agent = new Agent({
  name: "shop",
  model: new OpenAIChatCompletionsModel(client, "gpt-4o"),
  tools: [
    tool({ name: "look", description: "Look", parameters, execute: look }),
    tool({ name: "refund", description: "Refund", parameters, execute: refund }),
    tool({ name: "forget", description: "Forget", parameters, execute: forget }),
  ],
});
console.log((await run(agent, "Refund order 7")).finalOutput);
