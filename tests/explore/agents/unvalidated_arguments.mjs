// Runs a tool with whatever arguments the model wrote. The twin tells the model that it cannot read them.
const GAVE_UP = 3;
const TOOLS = [{ type: "function", function: { name: "refund", parameters: { type: "object", properties: {} } } }];
const messages = [{ role: "user", content: "Order 42 never came." }];

async function ask() {
  const answer = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "gpt-4o", messages, tools: TOOLS }),
  });
  if (!answer.ok) process.exit(GAVE_UP);
  return (await answer.json()).choices[0].message;
}

function run(call) {
  const refund = ({ order_id }) => `paid for ${order_id}`;
  if (process.argv[2] === "defect") return refund(JSON.parse(call.function.arguments));
  try {
    return refund(JSON.parse(call.function.arguments));
  } catch {
    return "the arguments are no JSON";
  }
}

for (;;) {
  const said = await ask();
  if (!said.tool_calls) {
    console.log(said.content);
    break;
  }
  messages.push(said);
  for (const call of said.tool_calls) messages.push({ role: "tool", tool_call_id: call.id, content: run(call) });
}
