// An agent with the AI SDK of Vercel.
import { openai } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";

const find = tool({ inputSchema: jsonSchema({ type: "object" }), execute: async () => "nothing" });
const { text } = await generateText({
  model: openai.chat("gpt-4o"),
  prompt: "Where is order 42?",
  tools: { find },
  stopWhen: stepCountIs(Number(process.argv[2])),
  abortSignal: AbortSignal.timeout(60_000),
  maxRetries: 2,
});
console.log(text);
