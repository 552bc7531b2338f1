// What has happened so far, as the service says.

export const EVERY_FILE = { "/files/page": "with", "/unfenced/page": "without" };
/** A token packs an era and a count below this. */
const COUNTS = 1_000_000n;
/** What the smallest token is shown as. */
const FIRST = 33;

export const world = {
  events: [],
  clients: { 1: quiet(), 2: quiet() },
  files: { with: empty(), without: empty() },
  /** The tokens of the leases, the smallest first. */
  tokens: [],
  nodes: [],
  /** The numbers of the nodes that somebody stopped here. */
  stopped: new Set(),
  /** The last era of each node by name, the least and the largest of all, and how many digits tell them apart. */
  eras: new Map(),
  least: null,
  most: null,
  digits: 3,
  quorum: true,
  stoppable: false,
  offset: null,
};

function quiet() {
  return { leases: [], naps: [], waits: [], lease: null, asleep: false, asks: false, mistake: null };
}

function empty() {
  return { writes: [], content: null, highest: null };
}

/** Returns the time of the service. */
export function now() {
  return world.offset === null ? 0 : performance.now() + world.offset;
}

/** Returns the last digits of an era: so many that no two eras on this page look alike or the wrong way round. */
export function tail(era) {
  return String(era).slice(-world.digits);
}

/** Returns a token as a small number: 33, 34 and so on, in the order of the tokens. */
export function short(token) {
  return String(FIRST + world.tokens.indexOf(token));
}

/** Returns the small number, and the real token. */
export function full(token) {
  return `${short(token)} (in full: ${token})`;
}

function learn(token) {
  if (world.tokens.includes(token)) return;
  world.tokens.push(token);
  world.tokens.sort((a, b) => Number(BigInt(a) - BigInt(b)));
  meet(BigInt(token) / COUNTS);
}

function meet(era) {
  if (world.least === null || era < world.least) world.least = era;
  if (world.most === null || era > world.most) world.most = era;
  while (world.least / 10n ** BigInt(world.digits) !== world.most / 10n ** BigInt(world.digits)) world.digits += 1;
}

/** Takes in an event. Returns what is to be logged: the event, and what follows from it. */
export function take(event) {
  world.events.push(event);
  if (event.token) learn(event.token);
  const client = event.client ? world.clients[event.client] : null;
  const file = event.file ? world.files[EVERY_FILE[event.file]] : null;
  const end = () => {
    if (client.lease) client.lease.end = event.at;
    client.lease = null;
  };
  const ask = () => {
    client.asks = false;
    const wait = client.waits.at(-1);
    if (wait) wait.end = event.at;
  };
  switch (event.kind) {
    case "service":
      world.stoppable = event.stoppable;
      return [];
    case "nodes":
      world.nodes = event.nodes;
      world.quorum = event.quorum;
      event.nodes.forEach((node, index) => {
        if (node.state !== "away") world.stopped.delete(index + 1);
      });
      return newEras(event);
    case "node":
      if (event.deed === "stop") world.stopped.add(event.node);
      if (event.deed === "start") world.stopped.delete(event.node);
      break;
    case "asks":
      client.asks = true;
      client.waits.push({ start: event.at, end: null });
      break;
    case "granted":
      ask();
      client.lease = { token: event.token, start: event.at, until: event.until, end: null };
      client.leases.push(client.lease);
      client.mistake = null;
      break;
    case "not-granted":
    case "gives-up":
      ask();
      break;
    case "renewed":
      if (client.lease) client.lease.until = event.until;
      break;
    case "lost":
    case "released":
      end();
      break;
    case "asleep":
      client.asleep = true;
      client.naps.push({ start: event.at, end: null, believes: client.lease });
      break;
    case "awake":
      client.asleep = false;
      client.naps.at(-1).end = event.at;
      break;
    case "stored":
    case "refused": {
      const { at, token, client: number } = event;
      const refused = event.kind === "refused";
      const newer = file.highest !== null && BigInt(token) < BigInt(file.highest) ? file.highest : null;
      // Its lease was over, and it did not know.
      const over = client.lease?.token === token && client.lease.until < at;
      if (over) client.mistake = { token, ago: at - client.lease.until };
      event.older = newer !== null && !refused;
      event.late = over && !newer;
      file.writes.push({ at, token, client: number, refused, older: event.older, newer, over });
      if (refused) file.refused = event;
      else file.content = { text: event.text, token, older: event.older };
      if (!newer && !refused) file.highest = token;
      break;
    }
  }
  return [event];
}

/** Returns an event for each era that nodes have gone to. */
function newEras(event) {
  const found = new Map();
  for (const node of event.nodes.filter((node) => node.era)) {
    meet(BigInt(node.era));
    const before = world.eras.get(node.name);
    world.eras.set(node.name, node.era);
    if (before === undefined || before === node.era) continue;
    if (!found.has(node.era)) found.set(node.era, { kind: "era", at: event.at, era: node.era, nodes: [] });
    found.get(node.era).nodes.push({ name: node.name, before });
  }
  return [...found.values()];
}
