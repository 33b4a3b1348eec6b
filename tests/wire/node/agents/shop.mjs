// The tools of a shop. Each writes a line to the ledger when it runs.
import { appendFileSync } from "node:fs";

function note(line) {
  appendFileSync(process.env.LEDGER, `${line}\n`);
}

export async function look({ order }) {
  note(`look ${order}`);
  return { order, price: 12.5, state: "paid" };
}

export const refund = async ({ order }) => {
  note(`refund ${order}`);
  if (order === 13) throw new RangeError("there is no order 13");
  return `refunded ${order}`;
};

export async function forget({ order }) {
  note(`forget ${order}`);
}
