// The same agent in JavaScript, without packages: it uses fetch, and retries a failed request once.
//
// Run it: offbook exec --replay examples/wire/weather.json --run-tools -- node examples/wire/weather_agent.mjs

const WEATHER = { Oslo: "sun, 11 degrees", Bergen: "rain, 9 degrees" };
const TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Tells the weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

async function ask(messages, triesLeft = 1) {
  const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
    body: JSON.stringify({ model: "gpt-4o-mini", messages, tools: [TOOL] }),
  });
  if (response.status >= 500 && triesLeft > 0) return ask(messages, triesLeft - 1);
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()).choices[0].message;
}

async function advise(question) {
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const message = await ask(messages);
    if (!message.tool_calls) return message.content;
    messages.push({ role: "assistant", content: message.content, tool_calls: message.tool_calls });
    for (const call of message.tool_calls) {
      const { city } = JSON.parse(call.function.arguments);
      messages.push({ role: "tool", tool_call_id: call.id, content: WEATHER[city] });
    }
  }
}

console.log(await advise("Where do I need an umbrella today, in Oslo or in Bergen?"));
