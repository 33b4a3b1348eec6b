// OpenAI Agents: an agent that another agent uses as a tool, and one to which it hands over.
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { look, refund } from "./shop.mjs";

setTracingDisabled(true);
const parameters = z.object({ order: z.number() });
const client = new OpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "test", maxRetries: 0 });
const model = new OpenAIChatCompletionsModel(client, "gpt-4o");
const clerk = new Agent({ name: "clerk", model, tools: [tool({ name: "look", description: "Look", parameters, execute: look })] });
const cashier = new Agent({ name: "cashier", model, tools: [tool({ name: "refund", description: "Refund", parameters, execute: refund })] });
const research = clerk.asTool({ toolName: "research", toolDescription: "Looks an order up" });
console.log((await run(new Agent({ name: "desk", model, tools: [research], handoffs: [cashier] }), "Refund order 7")).finalOutput);
