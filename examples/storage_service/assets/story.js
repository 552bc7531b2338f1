// The story, step by step. It gives orders, and waits for what the service sends.

import { send } from "/dom.js";
import { short, world } from "/world.js";

/** What of the events the story waits for. */
let waiters = [];

export function heard() {
  waiters = waiters.filter((waiter) => !waiter());
}

/** Waits until something is so, by the events. */
export function until(so) {
  return new Promise((resolve) => {
    waiters.push(() => so() && (resolve(), true));
    heard();
  });
}

/** Gives an order to a client. */
async function order(client, name) {
  if (!(await send(`/page/clients/${client}/${name}`))) throw new Error(`Client ${client} did not take the order`);
}

/** Gives an order, and waits until something is so; fails if the client says that it cannot be. */
async function has(client, name, so) {
  const before = world.events.length;
  await order(client, name);
  const wrong = () => world.events.slice(before)
    .find((event) => event.client === client && ["refuses", "failed", "not-granted"].includes(event.kind));
  await until(() => so() || wrong());
  if (!so()) throw new Error(`Client ${client}: ${wrong().why}`);
}

function token(number) {
  return world.clients[number].leases.at(-1).token;
}

function shown(number) {
  return short(token(number));
}

/** Brings both clients back to the beginning. */
export async function rest() {
  for (const number of [1, 2]) {
    const client = world.clients[number];
    if (client.asleep) {
      await order(number, "wake");
      await until(() => !client.asleep);
    }
    if (client.lease || client.asks) {
      await order(number, "release");
      await until(() => !client.lease && !client.asks);
    }
  }
}

/** The lease that client 2 waits for. */
let second;

/** Steps: the orders of each, and what is said when they are done. */
export const STEPS = [
  {
    run: () => has(1, "acquire", () => world.clients[1].lease),
    said: () => `Client 1 gets a lease. Its token is ${shown(1)}.`,
  },
  {
    run: () => has(1, "write", () => world.files.without.content?.token === token(1)),
    said: () => `Client 1 writes with token ${shown(1)}. Both files store it.`,
  },
  {
    async run() {
      await has(1, "write-asleep", () => world.clients[1].asleep);
      second = has(2, "acquire", () => world.clients[2].lease);
      second.catch(() => {});
    },
    said: () => "Client 1 falls asleep just before another write. Client 2 waits.",
  },
  {
    run: () => second,
    said: () => `The lease ran out. Client 2 gets one with token ${shown(2)}.`,
  },
  {
    run: () => has(2, "write", () => world.files.without.content?.token === token(2)),
    said: () => `Client 2 writes with token ${shown(2)}. Both files store it.`,
  },
  {
    run() {},
    said: () => `Client 1 is about to wake. It still believes in ${shown(1)}.`,
  },
  {
    run() {
      const stale = (file) => file.writes.at(-1).token === token(1);
      return has(1, "wake", () => stale(world.files.with) && stale(world.files.without));
    },
    said: () => (world.files.with.writes.at(-1).refused
      ? `The fence saw ${shown(2)} and refuses ${shown(1)}. The other file is corrupted.`
      : "The fence is off: both files are corrupted."),
  },
];
