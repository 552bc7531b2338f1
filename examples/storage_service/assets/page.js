// Draws what the service tells by server-sent events, and gives it orders. Nothing is played back.

const $ = (id) => document.getElementById(id);
const LONG = 15000;
const EVERY_FILE = { "/files/page": "with", "/unfenced/page": "without" };

// --- What has happened so far ---

const world = {
  events: [],
  clients: { 1: quiet(), 2: quiet() },
  files: { with: empty(), without: empty() },
  nodes: [],
  quorum: true,
  stoppable: false,
  offset: null,
};

function quiet() {
  return { leases: [], naps: [], waits: [], lease: null, asleep: false, asks: false };
}

function empty() {
  return { writes: [], content: null, highest: null };
}

function now() {
  return world.offset === null ? 0 : performance.now() + world.offset;
}

/** The digits by which a person tells two tokens apart. */
function short(token) {
  return token.length > 8 ? "…" + token.slice(-4) : token;
}

function take(event) {
  world.events.push(event);
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
      $("unguarded").hidden = event.guarded;
      break;
    case "nodes":
      world.nodes = event.nodes;
      world.quorum = event.quorum;
      drawNodes();
      break;
    case "asks":
      client.asks = true;
      client.waits.push({ start: event.at, end: null });
      break;
    case "granted":
      ask();
      client.lease = { token: event.token, start: event.at, until: event.until, end: null };
      client.leases.push(client.lease);
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
      client.naps.push({ start: event.at, end: null });
      break;
    case "awake":
      client.asleep = false;
      client.naps.at(-1).end = event.at;
      break;
    case "stored": {
      const older = file.highest !== null && BigInt(event.token) < BigInt(file.highest);
      file.writes.push({ at: event.at, token: event.token, client: event.client, older });
      file.content = { text: event.text, token: event.token, older };
      if (!older) file.highest = event.token;
      break;
    }
    case "refused":
      file.writes.push({ at: event.at, token: event.token, client: event.client, refused: true });
      file.refused = event;
      break;
  }
  if (event.kind !== "service" && event.kind !== "nodes" && event.kind !== "sends") log(event);
  draw();
  story.heard(event);
}

// --- In words ---

/** What an event is, and why it is so. */
function words(event) {
  const who = `client ${event.client}`;
  const token = event.token ? `token ${event.token}` : "";
  const file = event.file ? `the file ${EVERY_FILE[event.file] === "with" ? "with the fence" : "without a fence"}` : "";
  switch (event.kind) {
    case "asks":
      return [`${who} asks for a lease`, "It asks all lock nodes at once. It has the lease when a majority of them grants it. (docs/protocol.md, “Acquire”)"];
    case "granted":
      return [`${who} has the lease, ${token}`, "The token is larger than that of every earlier lease of this file. The client shows it with each write. (docs/protocol.md, “Acquire”)"];
    case "not-granted":
      return [`${who} has no lease: ${event.why}`, "It asked until its wait was over. (docs/protocol.md, “Waiting”)"];
    case "gives-up":
      return [`${who} waits no longer`, "Nothing was granted."];
    case "renewed":
      return [`${who} renews its lease`, "A watchdog of the client renews each third of the lease's time. It runs on the client's thread: asleep, it does not. (docs/protocol.md, “Renew”)"];
    case "lost":
      return [`${who} notices that its lease is lost: ${event.why}`, "A client that is awake stops its work here. What it has sent before, nobody can take back: that is what the fence is for."];
    case "released":
      return [`${who} releases its lease`, "The next client need not wait until it would have run out. (docs/protocol.md, “Release”)"];
    case "asleep":
      return [`${who} falls asleep${event.within_a_write ? " in the middle of a write" : ""}`, event.within_a_write
        ? "It has looked at its lease, found it valid, and not sent the write yet. Its whole thread stops, as in a long garbage collection."
        : "Its whole thread stops, as in a long garbage collection. The renewal of its lease stops with it."];
    case "awake":
      return [`${who} wakes up`, event.within_a_write
        ? "It goes on where it was: it sends the write. It cannot know that time has passed."
        : "It goes on where it was."];
    case "stored": {
      const older = event.older ? ", OVER A NEWER WRITE" : "";
      return [`${file}: stored what ${who} wrote with ${token}${older}`, event.older
        ? "The token is older than that of the write before. Nobody compared them, and the newer write is gone."
        : "No newer token has been seen for this file."];
    }
    case "refused":
      return [`${file}: REFUSED what ${who} wrote with ${token}`, `The storage answered ${event.status}: ${event.why}. It has seen a newer token, so this write is stale.`];
    case "failed":
      return [`${who}: a write failed`, event.why];
    case "refuses":
      return [`${who} does nothing: ${event.why}`, "A client that looks at its lease sees that it may not write. The trouble is what happens after it has looked."];
    case "node": {
      const deed = { stop: "is stopped", start: "starts, with nothing in its memory", flush: "is wiped: it has forgotten everything" }[event.deed];
      return [`lock node ${event.node} ${deed}`, event.deed === "stop"
        ? "The others go on: a majority is enough. (docs/protocol.md, “Quorum”)"
        : "A node that has forgotten may have granted a lease. It grants nothing until any such lease is over. (docs/protocol.md, “Quarantine”)"];
    }
    default:
      return [event.kind, ""];
  }
}

function log(event) {
  if (event.kind === "renewed" && world.events.at(-2)?.kind === "renewed") return;
  if (event.kind === "stored") event.older = world.files[EVERY_FILE[event.file]].writes.at(-1).older;
  const [what, why] = words(event);
  const item = document.createElement("li");
  item.dataset.kind = event.kind;
  const button = document.createElement("button");
  const time = document.createElement("time");
  time.textContent = (event.at / 1000).toFixed(1) + " s";
  button.append(time, what);
  button.setAttribute("aria-expanded", "false");
  const reason = document.createElement("p");
  reason.className = "why";
  reason.textContent = why;
  reason.hidden = true;
  button.addEventListener("click", () => {
    reason.hidden = !reason.hidden;
    button.setAttribute("aria-expanded", String(!reason.hidden));
  });
  item.append(button, reason);
  $("log").prepend(item);
  while ($("log").children.length > 60) $("log").lastChild.remove();
}

// --- The lanes ---

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 52;
let follow = true;
let still = 0;

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

function scale(width, end) {
  const start = end - LONG;
  const ahead = 4000;
  return (at) => ((at - start) / (LONG + ahead)) * width;
}

function drawLanes() {
  const at = follow ? now() : still;
  for (const number of [1, 2]) drawClient(number, at);
  drawFile("with", at);
  drawFile("without", at);
}

function begin(svg, at, label) {
  const width = svg.clientWidth || 300;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute("aria-label", label);
  svg.replaceChildren();
  const x = scale(width, at);
  svg.append(shape("line", { class: "now", x1: x(at), x2: x(at), y1: 0, y2: HEIGHT }));
  if (svg.id === "lane-1") svg.append(shape("text", { class: "tick", x: x(at) + 3, y: HEIGHT - 2 }, "now"));
  return [x, width];
}

function drawClient(number, at) {
  const client = world.clients[number];
  const svg = $(`lane-${number}`);
  svg.classList.toggle("two", number === 2);
  const [x, width] = begin(svg, at, `client ${number}: ${client.leases.length} leases, ${client.asleep ? "asleep" : "awake"}`);
  for (const wait of client.waits) {
    const end = Math.min(wait.end ?? at, at);
    if (end > at - LONG) svg.append(shape("line", { class: "wait", x1: x(wait.start), x2: x(end), y1: 26, y2: 26 }));
  }
  for (const lease of client.leases) {
    const end = lease.end ?? lease.until;
    if (end < at - LONG) continue;
    const solid = Math.min(end, lease.until, at);
    const left = Math.max(x(lease.start), 0);
    svg.append(shape("rect", { class: "lease", x: left, y: 18, width: Math.max(x(solid) - left, 1), height: 16, rx: 3 }));
    if (!lease.end && lease.until > at) {
      svg.append(shape("rect", { class: "belief", x: x(at), y: 19, width: x(lease.until) - x(at), height: 14, rx: 3 }));
    }
    svg.append(shape("text", { x: left, y: 13 }, `token ${short(lease.token)}`));
    if (solid < at) svg.append(shape("text", { x: Math.min(x(solid), width - 60), y: 48 }, lease.end && lease.end < lease.until ? "" : "lease over"));
  }
  for (const nap of client.naps) {
    const end = Math.min(nap.end ?? at, at);
    if (end < at - LONG) continue;
    const [from, to] = [Math.max(x(nap.start), 0), x(end)];
    let path = "";
    for (let dash = from; dash < to; dash += 9) path += `M${dash} 36 ${Math.min(dash + 7, to)} 16`;
    svg.append(shape("path", { class: "asleep", d: path }));
    if (to - from > 40) svg.append(shape("text", { x: from + 4, y: 48 }, "asleep"));
  }
}

function drawFile(name, at) {
  const file = world.files[name];
  const kept = file.content ? `holds what ${file.content.text} wrote` : "empty";
  const [x] = begin($(`lane-${name}`), at, `file ${name === "with" ? "with the fence" : "without the fence"}: ${kept}`);
  const svg = $(`lane-${name}`);
  if (name === "with") {
    // The mark is a step that only rises.
    let path = "M0 44";
    let height = 44;
    let mark = null;
    for (const write of file.writes.filter((write) => !write.refused && !write.older)) {
      if (write.token === mark) continue;
      mark = write.token;
      path += ` H${Math.max(x(write.at), 0)}`;
      height = Math.max(height - 9, 30);
      path += ` V${height}`;
    }
    svg.append(shape("path", { class: "step", d: `${path} H${x(at)}` }));
  }
  for (const write of file.writes) {
    if (write.at < at - LONG) continue;
    const left = x(write.at);
    const text = `client ${write.client}, ${short(write.token)}`;
    let mark;
    if (write.refused) {
      mark = shape("path", { class: "refused", d: `M${left - 6} 16l12 12M${left + 6} 16l-12 12`, role: "img", "aria-label": `refused: ${text}` });
    } else if (write.older) {
      mark = shape("path", { class: "corrupt", d: `M${left} 13l9 16h-18z`, role: "img", "aria-label": `overwrote a newer write: ${text}` });
    } else {
      mark = shape("circle", { class: "stored", cx: left, cy: 22, r: 6, role: "img", "aria-label": `stored: ${text}` });
    }
    mark.append(shape("title", {}, mark.getAttribute("aria-label")));
    svg.append(mark);
  }
}

// --- Nodes, clients and files ---

function drawNodes() {
  $("quorum").textContent = world.quorum ? "a majority grants" : "NO MAJORITY: nobody gets a lease";
  // Each node keeps its place and its buttons: somebody may be about to press one.
  const names = [...$("nodes").children].map((item) => item.dataset.name);
  if (names.join() !== world.nodes.map((node) => node.name).join()) {
    $("nodes").replaceChildren(...world.nodes.map((node, index) => place(node.name, index + 1)));
  }
  world.nodes.forEach((node, index) => { $("nodes").children[index].className = node.state; });
  describeNodes();
}

/** The place of a node, with its buttons. */
function place(name, number) {
  const item = document.createElement("li");
  item.dataset.name = name;
  item.dataset.node = number;
  const state = document.createElement("span");
  state.className = "state";
  item.append(state);
  if (!world.stoppable) return item;
  for (const [deed, label] of [["stop", "kill"], ["start", "start"], ["flush", "wipe"]]) {
    const button = document.createElement("button");
    button.textContent = label;
    button.setAttribute("aria-label", `${label} ${name}`);
    button.addEventListener("click", () => send(`/page/nodes/${number}/${deed}`));
    item.append(button, " ");
  }
  return item;
}

function describeNodes() {
  world.nodes.forEach((node, index) => {
    const rest = node.until ? Math.max(0, (node.until - now()) / 1000).toFixed(0) : "";
    const text = { grants: "● grants", quarantined: `◐ quarantined: it has forgotten, and grants nothing for ${rest} s`, away: `○ away: ${node.why}` }[node.state];
    set($("nodes").children[index].firstChild, `${node.name}: ${text}${node.era ? `, era ${node.era}` : ""}`);
  });
}

const ORDERS = [
  ["acquire", "Acquire"], ["write", "Write"], ["write-asleep", "Write, and fall asleep before it is sent"],
  ["sleep", "Fall asleep"], ["wake", "Wake up"], ["release", "Release"],
];

for (const box of document.querySelectorAll(".buttons")) {
  const client = box.dataset.client;
  for (const [order, label] of ORDERS) {
    const button = document.createElement("button");
    button.textContent = label;
    button.dataset.order = order;
    button.setAttribute("aria-label", `${label}: client ${client}`);
    button.addEventListener("click", () => send(`/page/clients/${client}/${order}`));
    box.append(button);
  }
}

function drawClients() {
  for (const number of [1, 2]) {
    const client = world.clients[number];
    const lease = client.lease;
    const rest = lease ? (lease.until - now()) / 1000 : 0;
    const nap = client.naps.at(-1);
    const then = lease && nap ? Math.max(0, (lease.until - nap.start) / 1000) : 0;
    let [belief, truth] = ["it has no lease", "it has no lease"];
    if (client.asks) [belief, truth] = ["it waits for a lease", "it waits for a lease"];
    if (lease) {
      truth = rest > 0 ? `token ${short(lease.token)}, ${rest.toFixed(1)} s left` : `its lease ended ${(-rest).toFixed(1)} s ago`;
      belief = client.asleep ? `token ${short(lease.token)}, ${then.toFixed(1)} s left` : truth;
    }
    if (client.asleep) truth = `asleep; ${truth}`;
    set($(`belief-${number}`), belief);
    set($(`truth-${number}`), truth);
    for (const button of document.querySelectorAll(`.buttons[data-client="${number}"] button`)) {
      const order = button.dataset.order;
      const usable = client.asleep ? order === "wake"
        : order === "wake" ? false
        : order === "acquire" ? !lease && !client.asks
        : order === "release" ? lease || client.asks
        : order === "sleep" ? true : lease;
      if (button.disabled === !!usable) button.disabled = !usable;
    }
  }
}

function drawFiles() {
  for (const name of ["with", "without"]) {
    const [file, card] = [world.files[name], $(name)];
    const content = file.content ? `“${file.content.text}”, token ${short(file.content.token)}` : "empty";
    set(card.querySelector(".content"), content);
    if (name === "with") set(card.querySelector(".mark"), file.highest ? short(file.highest) : "none");
    const last = file.writes.at(-1);
    const corrupted = file.content?.older ?? false;
    const refused = last?.refused ?? false;
    card.classList.toggle("corrupted", corrupted);
    card.classList.toggle("kept", refused && !corrupted);
    set(card.querySelector(".verdict"), corrupted ? "CORRUPTED: a stale write went over a newer one."
      : refused ? `The stale write was refused (HTTP ${file.refused.status}).` : "");
  }
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function draw() {
  drawLanes();
  drawClients();
  drawFiles();
}

// --- Orders ---

async function send(path) {
  $("answer").hidden = true;
  try {
    const answer = await fetch(path, { method: "POST", headers: { "X-Page": "1" } });
    if (answer.ok) return;
    const text = await answer.text();
    tell(text.startsWith("{") ? JSON.parse(text).detail : text);
  } catch {
    tell("The service does not answer.");
  }
}

function tell(text) {
  set($("answer"), text);
  $("answer").hidden = false;
}

// --- The story ---

/** A step: what is said, the orders that it gives, and what it waits for. */
const STEPS = [
  {
    text: "Two clients may write the same file, one at a time. First, client 1 asks the lock nodes for a lease.",
    async run() {
      await order(1, "acquire");
      await until(() => world.clients[1].lease);
    },
  },
  {
    text: () => `A majority of the nodes granted it. The lease carries a number, the fencing token: ${short(token(1))}. Client 1 writes, and shows the token.`,
    async run() {
      await order(1, "write");
      await until(() => world.files.without.content?.token === token(1));
    },
  },
  {
    text: "Both files have stored it. Client 1 begins another write: it looks at its lease, which is valid, and falls asleep before it sends anything. (A garbage collection, a swapped page, a laptop that is closed.)",
    async run() {
      await order(1, "write-asleep");
      await until(() => world.clients[1].asleep);
    },
  },
  {
    text: "Client 1 is asleep, so it does not renew its lease. Client 2 wants to write too. It asks, and waits until the lease of client 1 runs out.",
    async run() {
      await order(2, "acquire");
      await until(() => world.clients[2].lease);
    },
  },
  {
    text: () => `Client 2 has a lease now, with a larger token: ${short(token(2))}. Client 1 still believes in its own. Client 2 writes.`,
    async run() {
      await order(2, "write");
      await until(() => world.files.without.content?.token === token(2));
    },
  },
  {
    text: "Both files hold what client 2 wrote. Now client 1 wakes up. It looked at its lease before it fell asleep, so it simply sends its write, with its old token.",
    async run() {
      const old = world.clients[1].leases.at(-1).token;
      await order(1, "wake");
      await until(() => world.files.without.content?.token === old);
      await until(() => world.files.with.writes.at(-1)?.token === old);
    },
  },
  {
    text: () => world.files.with.writes.at(-1)?.refused
      ? "The file with the fence has seen a larger token and refused the write. The file without stored it: what client 2 wrote is gone. No lock can prevent that, however good it is: client 1 was within its rights when it looked."
      : "The fence is off: both files stored the stale write.",
    async run() {
      await order(2, "release");
      await until(() => !world.clients[2].lease);
    },
  },
  { text: "That is the whole loop: a lease with a token that never goes backwards, and a storage that compares it. Try it yourself in free play: kill nodes, wipe them, put a client to sleep." },
];

const story = { step: 0, waiters: [], heard() { this.waiters = this.waiters.filter((waiter) => !waiter()); } };

function token(number) {
  return world.clients[number].leases.at(-1)?.token ?? "";
}

function order(client, name) {
  return send(`/page/clients/${client}/${name}`);
}

/** Waits until something is so, as the events tell. */
function until(so) {
  return new Promise((resolve) => {
    const look = () => (so() ? (resolve(), true) : false);
    if (!look()) story.waiters.push(look);
  });
}

function drawStory() {
  const step = STEPS[story.step];
  set($("step-number"), `Step ${story.step + 1} of ${STEPS.length}`);
  set($("step-text"), typeof step.text === "function" ? step.text() : step.text);
  set($("next"), story.step === 0 ? "Start" : step.run ? "Next" : "Again");
}

/** Brings both clients back to the beginning. */
async function rest() {
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

$("next").addEventListener("click", async () => {
  $("next").disabled = true;
  const step = STEPS[story.step];
  if (story.step === 0) await rest();
  await step.run?.();
  story.step = step.run ? story.step + 1 : 0;
  drawStory();
  $("next").disabled = false;
  $("next").focus();
});

for (const [id, free] of [["mode-story", false], ["mode-free", true]]) {
  $(id).addEventListener("click", () => {
    document.body.classList.toggle("free", free);
    $("story").hidden = free;
    $("mode-story").setAttribute("aria-pressed", String(!free));
    $("mode-free").setAttribute("aria-pressed", String(free));
  });
}

$("follow").addEventListener("click", () => {
  follow = !follow;
  still = now();
  $("follow").setAttribute("aria-pressed", String(!follow));
});

// --- What the service tells ---

const source = new EventSource("/page/events");
source.addEventListener("now", (event) => {
  world.offset = Number(event.data) - performance.now();
});
source.addEventListener("message", (event) => {
  const told = JSON.parse(event.data);
  // After a restart of the service the numbers begin anew, and so does the page.
  if (told.number <= (world.events.at(-1)?.number ?? 0)) location.reload();
  else take(told);
});
source.addEventListener("open", () => { $("connection").hidden = true; });
source.addEventListener("error", () => {
  set($("connection"), "The service does not answer. Waiting for it…");
  $("connection").hidden = false;
});

$("span").textContent = String(LONG / 1000);
drawStory();
const calm = matchMedia("(prefers-reduced-motion: reduce)");
function tick() {
  draw();
  describeNodes();
  setTimeout(() => requestAnimationFrame(tick), calm.matches ? 1000 : 60);
}
tick();
