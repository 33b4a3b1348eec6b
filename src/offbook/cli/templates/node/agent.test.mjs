// Replays the agent under `npm test`: no network, no key.
import assert from "node:assert/strict";
import { test } from "node:test";
import { answer } from "./agent.mjs";

test("it refunds what never came", async () => {
  assert.equal(await answer("Order 42 never came."), "Order 42 is refunded. I am sorry that it never came.");
});
