// The story, step by step. It gives orders, and waits for what the service sends.

import { send } from "/dom.js";
import { short, world } from "/world.js";

/** What of the events the story waits for. */
let waiters = [];

export function heard() {
  waiters = waiters.filter((waiter) => !waiter());
}

/** Waits until something is so, by the events. */
function until(so) {
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
  return world.clients[number].leases.at(-1)?.token ?? null;
}

function shown(number) {
  return token(number) ? short(token(number)) : "";
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

/** Steps: what has happened, what comes next by its button, what is said meanwhile, and the orders of it. */
export const STEPS = [
  {
    said: "Two clients take turns. Each write goes to two files: one compares tokens, the other does not. So far no client has asked for a lease.",
    next: "Start: let client 1 ask for a lease",
    run: () => has(1, "acquire", () => world.clients[1].lease),
  },
  {
    said: () => `A majority of the lock nodes granted client 1 a lease: the right to write for a few seconds, which it renews while it is awake. The lease carries a number, the fencing token: ${shown(1)}. A later lease has a larger one.`,
    next: "Let client 1 write",
    run: () => has(1, "write", () => world.files.without.content?.token === token(1)),
  },
  {
    said: () => `Client 1 wrote, and showed its token ${shown(1)}. Both files have stored it.`,
    next: "Put client 1 to sleep in its next write",
    run: () => has(1, "write-asleep", () => world.clients[1].asleep),
  },
  {
    said: "Client 1 began another write: it looked at its lease, found it valid, and fell asleep before it sent anything. (A garbage collection, a swapped page, a laptop that is closed.) Asleep, it does not renew its lease.",
    next: "Let client 2 ask for a lease",
    meanwhile: "Client 2 waits for the lease of client 1 to run out…",
    run: () => has(2, "acquire", () => world.clients[2].lease),
  },
  {
    said: () => `The lease of client 1 ran out, and client 2 was granted one, with a larger token: ${shown(2)}. Client 1 is asleep and still believes in its own.`,
    next: "Let client 2 write",
    run: () => has(2, "write", () => world.files.without.content?.token === token(2)),
  },
  {
    said: () => `Client 2 wrote, and showed its token ${shown(2)}. Both files hold what client 2 wrote. Client 1 still sleeps in the middle of its write.`,
    next: "Wake client 1",
    run() {
      const old = token(1);
      return has(1, "wake", () => world.files.without.content?.token === old && world.files.with.writes.at(-1)?.token === old);
    },
  },
  {
    said: () => `Client 1 woke up. It had looked at its lease before it fell asleep, so it simply sent its write, with its old token ${shown(1)}. ` + (world.files.with.writes.at(-1)?.refused
      ? "The file with the fence had seen a larger token, and refused. The file without stored it: what client 2 wrote is gone. No lock can prevent that, however good it is: client 1 was within its rights when it looked."
      : "The fence is off: both files stored the stale write."),
    next: "Let client 2 release its lease",
    async run() {
      if (world.clients[2].lease) await has(2, "release", () => !world.clients[2].lease);
    },
  },
  {
    said: "Client 2 has released its lease: the lock is free. That is the whole scenario: a lease with a token that never goes backwards, and a storage that compares it. Try it yourself in free play: kill nodes, wipe them, put a client to sleep.",
    next: "Play it again",
  },
];
