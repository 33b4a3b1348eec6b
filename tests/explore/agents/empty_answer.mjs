// Prints what the model says, be it nothing. The twin gives up then.
const GAVE_UP = 3;

const answer = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Where is order 42?" }] }),
});
const said = (await answer.json()).choices[0].message.content;
if (!said && process.argv[2] === "sound") process.exit(GAVE_UP);
console.log(said ?? "");
