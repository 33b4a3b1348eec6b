// Sends its second argument to the URL that is its first, and prints the answer.
const [url, body] = process.argv.slice(2);
console.log(await (await fetch(url, { method: "POST", body })).text());
