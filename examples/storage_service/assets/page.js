// Shows what the service sends as events, and gives it orders. Nothing is played back.

import { $, make, send, set, tell } from "/dom.js";
import { drawLanes, view } from "/lanes.js";
import { STEPS, heard, rest, until } from "/story.js";
import { full, now, short, tail, take, world } from "/world.js";
import { words } from "/words.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");

// --- The log ---

function log(event) {
  if (event.kind === "renewed" && world.events.at(-2)?.kind === "renewed") return;
  const [what, why] = words(event);
  const time = make("time", {}, (event.at / 1000).toFixed(1) + " s");
  const reason = make("p", { className: "why" }, why);
  const item = make("details", {}, make("summary", {}, time, what), reason);
  $("log").prepend(make("li", { dataset: { kind: event.kind } }, item));
  while ($("log").children.length > 60) $("log").lastChild.remove();
}

// --- Nodes, clients and files ---

const DEEDS = [
  ["stop", "kill", "It stops, and loses its memory"],
  ["start", "start", "It starts again, with nothing in its memory"],
  ["flush", "wipe", "It loses its state, and keeps running"],
];

function drawNodes() {
  set($("quorum"), world.quorum ? "a majority grants" : "NO MAJORITY: no lease is granted");
  // Each node keeps its place and its buttons: somebody may be about to press one.
  const names = [...$("nodes").children].map((item) => item.dataset.name);
  if (names.join() !== world.nodes.map((node) => node.name).join()) {
    $("nodes").replaceChildren(...world.nodes.map((node, index) => place(node, index)));
  }
  world.nodes.forEach((node, index) => { $("nodes").children[index].className = node.state; });
  describeNodes();
}

/** The place of a node, with its buttons. */
function place(node, index) {
  const dataset = { name: node.name, node: index + 1 };
  const item = make("li", { dataset }, make("span", { className: "state" }));
  for (const [deed, text, title] of world.stoppable ? DEEDS : []) {
    const onclick = () => send(`/page/nodes/${index + 1}/${deed}`);
    const label = `${text} ${node.name}`;
    item.append(make("button", { dataset: { deed }, title, label, onclick }, text), " ");
  }
  return item;
}

function describeNodes() {
  world.nodes.forEach((node, index) => {
    const item = $("nodes").children[index];
    const rest = node.until ? Math.max(0, (node.until - now()) / 1000).toFixed(0) : "";
    const text = { grants: "● grants", quarantined: `◐ quarantined: it has forgotten, and grants nothing for ${rest} s`, away: `○ away: ${node.why}` }[node.state];
    const era = node.era ? `, era ${tail(node.era)}` : "";
    set(item.firstChild, `${node.name}: ${text}${era}`, node.era ? `era in full: ${node.era}` : "");
    const stopped = world.stopped.has(index + 1);
    for (const button of item.querySelectorAll("button")) {
      button.disabled = button.dataset.deed === "start" ? node.state !== "away" : stopped;
    }
  });
}

const ORDERS = [
  ["acquire", "Acquire"], ["write", "Write"], ["write-asleep", "Write, and fall asleep before it is sent"],
  ["sleep", "Fall asleep"], ["wake", "Wake up"], ["release", "Release"],
];

for (const box of document.querySelectorAll(".buttons[data-client]")) {
  const client = box.dataset.client;
  for (const [order, text] of ORDERS) {
    const onclick = () => send(`/page/clients/${client}/${order}`);
    box.append(make("button", { dataset: { order }, label: `${text}: client ${client}`, onclick }, text));
  }
}

function drawClients() {
  for (const number of [1, 2]) {
    const client = world.clients[number];
    const lease = client.lease;
    const left = lease ? (lease.until - now()) / 1000 : 0;
    const nap = client.naps.at(-1);
    const then = lease && nap ? Math.max(0, (lease.until - nap.start) / 1000) : 0;
    let [belief, truth] = ["it has no lease", "it has no lease"];
    if (client.asks) [belief, truth] = ["it waits for a lease", "it waits for a lease"];
    if (lease) {
      const token = `token\u00a0${short(lease.token)}`;
      truth = left > 0 ? `${token}, ${left.toFixed(1)} s left` : `its lease ended ${(-left).toFixed(1)} s ago`;
      belief = client.asleep ? `${token}, ${then.toFixed(1)} s left` : truth;
    }
    if (client.asleep) truth = `asleep; ${truth}`;
    // It cannot see that its lease ends while it sleeps, and writes before it looks again.
    const { mistake } = client;
    if (mistake) {
      belief = `token\u00a0${short(mistake.token)} is valid, so it wrote`;
      truth = `its lease had ended ${(mistake.ago / 1000).toFixed(1)} s before`;
    }
    const about = mistake ?? lease;
    const title = about ? `token ${full(about.token)}` : "";
    const wrong = mistake || (client.asleep && lease && left <= 0 && then > 0);
    $(`belief-${number}`).parentElement.classList.toggle("differ", !!wrong);
    set($(`belief-${number}`), belief + (wrong ? "\u00a0✗" : ""), title);
    set($(`truth-${number}`), truth, title);
    const usable = client.asleep ? { wake: true } : {
      acquire: !lease && !client.asks, release: lease || client.asks, sleep: true, write: lease, "write-asleep": lease,
    };
    for (const button of document.querySelectorAll(`.buttons[data-client="${number}"] button`)) {
      button.disabled = !usable[button.dataset.order];
    }
  }
}

/** What the last write came to. */
function verdict(name, file) {
  const last = file.writes.at(-1);
  if (file.content?.older) return ["corrupted", "▲ CORRUPTED: a stale write went over a newer one, which is lost."];
  if (last?.refused) return ["kept", `✓ The stale write was refused (HTTP ${file.refused.status}): the data is safe.`];
  if (last?.over) {
    const why = name === "with" ? "no larger token had been seen, so nothing newer was lost." : "this file never looks.";
    return ["", `Stored, although the lease was over: ${why}`];
  }
  return ["", ""];
}

function drawFiles() {
  for (const name of ["with", "without"]) {
    const [file, card] = [world.files[name], $(name)];
    const content = file.content ? `“${file.content.text}”, token\u00a0${short(file.content.token)}` : "empty";
    set(card.querySelector(".content"), content, file.content ? `token ${full(file.content.token)}` : "");
    if (name === "with") set(card.querySelector(".mark"), file.highest ? short(file.highest) : "none", file.highest ? full(file.highest) : "");
    const [look, text] = verdict(name, file);
    for (const it of ["corrupted", "kept"]) card.classList.toggle(it, it === look);
    set(card.querySelector(".verdict"), text);
  }
}

function draw() {
  drawLanes();
  drawClients();
  drawFiles();
}

// --- The story ---

/** How long a step can be read, in milliseconds. */
const READ = 3800;
/** How many steps are done, whether it runs, perhaps paused, and the time of its picture. */
const story = { step: 0, runs: false, paused: false, from: null, to: null };

function drawStory() {
  const plays = story.runs && !story.paused;
  const step = STEPS[story.step - 1];
  set($("step-number"), step ? `Step ${story.step} of ${STEPS.length}` : "Thirty seconds");
  set($("step-text"), step ? step.said() : "Watch a client sleep through its lease, and then write.");
  set($("play"), plays ? "Pause" : story.runs || !step ? "Play" : "Play again");
}

/** Brings the story and both files into view, where they are not. */
function show() {
  const below = $("without").getBoundingClientRect().bottom > innerHeight;
  const above = $("story").getBoundingClientRect().top < 0;
  if (below || above) $("story").scrollIntoView({ block: "start", behavior: calm.matches ? "auto" : "smooth" });
}

function read() {
  return new Promise((done) => setTimeout(done, READ));
}

async function tellStory() {
  story.runs = true;
  story.step = 0;
  try {
    await rest();
    story.from = now();
    story.to = null;
    look();
    for (const step of STEPS) {
      await until(() => !story.paused);
      await step.run();
      story.step += 1;
      drawStory();
      await read();
    }
    story.to = now();
    look();
    await rest();
  } catch (error) {
    story.step = 0;
    tell(`${error.message}. The story begins again.`);
  }
  story.runs = false;
  drawStory();
}

$("play").addEventListener("click", () => {
  story.paused = story.runs && !story.paused;
  if (story.runs) heard();
  else tellStory();
  $("answer").hidden = true;
  drawStory();
  show();
});

/** Shows the time of the story, or in free play the last seconds. */
function look() {
  const free = document.body.classList.contains("free");
  view.from = free ? null : story.from;
  view.to = free ? null : story.to;
}

/** Shows the story or free play, which pauses the story. */
function mode(free) {
  document.body.classList.toggle("free", free);
  story.paused ||= free;
  $("story").hidden = free;
  $("mode-story").setAttribute("aria-pressed", String(!free));
  $("mode-free").setAttribute("aria-pressed", String(free));
  look();
  drawStory();
}

$("mode-story").addEventListener("click", () => mode(false));
$("mode-free").addEventListener("click", () => mode(true));

// --- What the service sends ---

const source = new EventSource("/page/events");
source.addEventListener("now", (event) => {
  world.offset = Number(event.data) - performance.now();
});
source.addEventListener("message", ({ data }) => {
  const event = JSON.parse(data);
  // After a restart of the service the numbers begin anew, and so does the page.
  if (event.number <= (world.events.at(-1)?.number ?? 0)) return location.reload();
  take(event).forEach(log);
  if (event.kind === "service") $("unguarded").hidden = event.guarded;
  if (event.kind === "nodes" || event.kind === "node") drawNodes();
  draw();
  heard();
});
source.addEventListener("open", () => { $("connection").hidden = true; });
source.addEventListener("error", () => {
  set($("connection"), "The service does not answer. Waiting for it…");
  $("connection").hidden = false;
});

drawStory();
function tick() {
  draw();
  describeNodes();
  setTimeout(() => requestAnimationFrame(tick), calm.matches ? 1000 : 60);
}
tick();
