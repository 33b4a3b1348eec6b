// One agent of each framework for Node, with its default settings: `node shop.mjs NAME [--streamed] [--again]`, as shop.py.
import { appendFileSync } from "node:fs";
import { z } from "zod";

const [name, ...options] = process.argv.slice(2);
const isStreamed = options.includes("--streamed");
const baseURL = process.env.OPENAI_BASE_URL;
const schema = z.object({ order: z.number() });
const ran = (line, result) => {
  appendFileSync("ledger", `${line}\n`);
  return result;
};
const lookUp = async ({ order }) => ran(`look_up ${order}`, `order ${order} is paid`);
const refund = async ({ order }) => ran(`refund ${order}`, `order ${order} is refunded`);

const agents = {
  async ai() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { generateText, stepCountIs, streamText, tool } = await import("ai");
    const model = createOpenAI({ baseURL }).chat("gpt-4o");
    const made = (execute) => tool({ description: "a tool", inputSchema: schema, execute });
    const tools = { look_up: made(lookUp), refund: made(refund) };
    const messages = [];
    return async (question) => {
      messages.push({ role: "user", content: question });
      const asked = { model, tools, messages, stopWhen: stepCountIs(9) };
      const result = isStreamed ? streamText(asked) : await generateText(asked);
      const text = await result.text;
      messages.push(...(await result.response).messages);
      return text;
    };
  },
  async openai_agents() {
    const { Agent, MemorySession, Runner, tool } = await import("@openai/agents");
    const made = (name, execute) => tool({ name, description: name, parameters: schema, execute });
    const agent = new Agent({ name: "clerk", model: "gpt-5", tools: [made("look_up", lookUp), made("refund", refund)] });
    const runner = new Runner({ tracingDisabled: true });
    const session = new MemorySession();
    return async (question) => {
      const result = await runner.run(agent, question, { stream: isStreamed, session });
      if (isStreamed) {
        for await (const _ of result);
        await result.completed;
      }
      return result.finalOutput;
    };
  },
  async langchain() {
    const { tool } = await import("@langchain/core/tools");
    const { ChatOpenAI } = await import("@langchain/openai");
    const { MemorySaver } = await import("@langchain/langgraph");
    const { createAgent } = await import("langchain");
    const made = (name, call) => tool(call, { name, description: name, schema });
    const model = new ChatOpenAI({ model: "gpt-4o", streaming: isStreamed, configuration: { baseURL } });
    const agent = createAgent({ model, tools: [made("look_up", lookUp), made("refund", refund)], checkpointer: new MemorySaver() });
    return async (question) => {
      const asked = { messages: [{ role: "user", content: question }] };
      return (await agent.invoke(asked, { configurable: { thread_id: "1" } })).messages.at(-1).content;
    };
  },
  async mastra() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { Agent } = await import("@mastra/core/agent");
    const { createTool } = await import("@mastra/core/tools");
    const made = (id, execute) => createTool({ id, description: id, inputSchema: schema, execute });
    const tools = { look_up: made("look_up", lookUp), refund: made("refund", refund) };
    const agent = new Agent({ id: "clerk", name: "clerk", instructions: "Help.", model: createOpenAI({ baseURL }).chat("gpt-4o"), tools });
    return async (question) => {
      const answer = isStreamed ? await agent.stream(question) : await agent.generate(question);
      const [text, error] = [await answer.text, await answer.error];
      if (error) throw error;
      return text;
    };
  },
};

const ask = await agents[name]();
for (const question of options.includes("--again") ? ["Refund order 7.", "Was it order 7?"] : ["Refund order 7."]) {
  let said;
  try {
    said = { answer: await ask(question) };
  } catch (error) {
    said = { error: error.name, text: String(error.message).slice(0, 500) };
  }
  console.log(JSON.stringify(said).replace(":", ": "));
}
process.exit(0);
