import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { forget, look, refund } from "./shop.mjs";

const inputSchema = z.object({ order: z.number() });

// tools may show their progress: the last result is the model's
async function* slowly(run, given) {
  yield "running";
  yield await run(given);
}

const tools = {
  look: tool({ description: "Look", inputSchema, execute: async function* (given) { yield* slowly(look, given); } }),
  refund: { description: "Refund", inputSchema, execute: (given) => slowly(refund, given) },
  forget: { description: "Forget", inputSchema, execute: forget },
};
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "test" });
const asked = { model: openai.chat("gpt-4o"), tools, prompt: "Refund order 7", stopWhen: stepCountIs(9), maxRetries: 0 };
const answer = process.env.STREAMED ? streamText(asked) : await generateText(asked);
console.log(await answer.text);
