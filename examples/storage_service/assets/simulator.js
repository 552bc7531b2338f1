// Asks the service what comes of a list of moves, and draws the answer. Nothing is worked out here.

import { drawArrows, forget } from "/arrows.js";
import { $, make, post, set, tell } from "/dom.js";

/** How many steps of its own the seed plays at once. */
const RUN = 40;

let rules = [];
/** The moves so far, what the last of them came to, and what has been played and taken back. */
const play = { moves: [], answer: null, before: null };
/** Answers that come late are dropped. */
let asked = 0;

function rule() {
  return rules.find((rule) => rule.name === $("rule").value) ?? null;
}

/** The schedule that is played, if one is. */
function schedule() {
  return $("world").value === "rule" ? rule()?.schedule ?? [] : null;
}

async function ask(moves, random = 0) {
  const number = ++asked;
  document.body.setAttribute("aria-busy", "true");
  const question = {
    world: $("world").value,
    rule: rule()?.name ?? null,
    off: $("off").checked,
    moves,
    random,
    seed: Math.min(Math.max(Math.trunc(Number($("seed").value)) || 0, 0), 999999),
    delay: Number($("delay").value),
  };
  try {
    const answer = JSON.parse(await post("/simulator/play", JSON.stringify(question)));
    if (number !== asked) return;
    $("answer").hidden = true;
    play.before = play.answer;
    play.answer = answer;
    play.moves = answer.steps.map((step) => step.move);
    draw();
  } catch (error) {
    if (number === asked) tell(error.message);
  } finally {
    if (number === asked) document.body.setAttribute("aria-busy", "false");
  }
}

/** A button that plays a move; `label` is for those who do not see where it stands. */
function button(text, label, move) {
  return make("button", { label, dataset: { move } }, text);
}

/** Whether the moves are those of the schedule, so far. */
function follows() {
  return schedule()?.length >= play.moves.length && play.moves.every((move, index) => move === schedule()[index]);
}

function next() {
  return schedule() && follows() ? schedule()[play.moves.length] ?? null : null;
}

function draw() {
  const focused = document.activeElement?.dataset?.move;
  const { steps, broken, broke, parts } = play.answer;
  const last = steps.at(-1);
  const all = schedule();
  const why = rule();
  set($("why"), "");
  if (why) {
    const link = make("a", { href: "/protocol.md" }, `docs/assurance/protocol.md, “${why.section}”`);
    $("why").append(`${why.why} (`, link, ")");
  }
  const without = $("off").checked ? `Without “${why?.rule}”: ${why?.without.join(", and ")}.` : `With “${why?.rule}”.`;
  set($("without"), why ? without : "No rule is switched off.");
  $("forgets").hidden = !play.answer.nodes.some((node) => node.look === "forgot");
  set($("place"), all && follows() ? `Step ${steps.length} of ${all.length} of the schedule` : `Step ${steps.length}`);
  set($("say"), last?.text ?? (all ? "Nothing has happened yet. The schedule waits for you." : "Nothing has happened yet. Deliver messages, break nodes, or let the seed choose."));
  const by = broke === 0 ? "before the first step" : `by step ${broke}`;
  set($("verdict"), broke === null ? "✓ Every promise holds" : `✗ BROKEN ${by}: ${broken.map(([breach]) => breach).join("; ")}`);
  $("picture").classList.toggle("broken", broke !== null);
  set($("parts"), parting(parts));
  $("back").disabled = steps.length === 0;
  $("step").disabled = all !== null && !next();
  $("no-step").hidden = !$("step").disabled;
  set($("no-step"), follows() ? "The schedule is over. Go on by hand or by a random step, or from the start." : "You left the schedule, so it has no next step. Go from the start to follow it.");
  $("end").disabled = $("step").disabled;
  $("random").disabled = play.answer.open.length === 0;
  drawArrows(play.answer);
  cards("nodes", "node");
  cards("clients", "client");
  followed();
  const kinds = { messages: "message", begins: "client", faults: "fault" };
  for (const [id, kind] of Object.entries(kinds)) moves(id, kind);
  $("log").replaceChildren(...steps.map((step, index) => {
    const className = index + 1 === broke ? "broke" : step.done ? "" : "nothing";
    return make("li", { className, dataset: { move: step.move } }, step.text);
  }));
  if (focused) document.querySelector(`button[data-move="${focused}"]`)?.focus();
}

/** Says a word where two clients have leases. */
function followed() {
  const leases = play.answer.clients.map((card) => [card.name, card.text.match(/^has a lease, token (\d+)·(\d+)/)]).filter(([, token]) => token)
    .map(([name, token]) => ({ name, era: Number(token[1]), count: Number(token[2]) }))
    .sort((a, b) => a.era - b.era || a.count - b.count);
  const [first, last] = [leases[0], leases.at(-1)];
  const apart = leases.length > 1 && (first.era !== last.era || first.count !== last.count);
  $("two").hidden = !apart || play.answer.broke !== null;
  if (apart) set($("two"), `${first.name} does not know that the locks of its lease are gone. That is allowed: the tokens differ, and the one of ${last.name} is larger.`);
}

function parting(parts) {
  if (!parts) return "";
  const other = $("off").checked ? "With the rule" : "Without the rule";
  const what = parts.instead ? parts.instead.text : "nothing happens there";
  return `${other} it goes another way from step ${parts.at + 1} on: ${what}`;
}

/** Draws nodes or clients. */
function cards(id, kind) {
  const before = new Map(play.before?.[id]?.map((card) => [card.name, JSON.stringify(card)]) ?? []);
  const [state, verbs, words] = kind === "node"
    ? [", cut off", ["cut", "join"], ["cut off", "connect"]]
    : [", paused", ["pause", "wake"], ["pause", "wake"]];
  const made = play.answer[id].map((card) => {
    const slug = card.name.replace(" ", "-");
    const held = play.answer.held.includes(card.name);
    const changed = before.has(card.name) && before.get(card.name) !== JSON.stringify(card);
    const name = kind === "node" ? `node ${card.name}` : card.name;
    const facts = card.facts.flatMap(([term, fact]) => [make("dt", {}, term), make("dd", {}, fact || "nothing")]);
    const className = `${card.look}${held ? " held" : ""}${changed ? " changed" : ""}`;
    const text = make("p", {}, card.text + (held ? state : ""));
    const item = make("li", { className, dataset: { name: slug } }, make("h3", {}, name), text, make("dl", {}, ...facts));
    const [verb, word] = [verbs[Number(held)], words[Number(held)]];
    item.append(button(word, `${word} ${name}`, `${verb}-${slug}`));
    return item;
  });
  $(id).replaceChildren(...made);
}

/** Draws what can happen next, of one kind. */
function moves(id, kind) {
  const verb = kind === "message" ? "deliver" : "do";
  const made = play.answer.open.filter((choice) => choice.kind === kind).map(({ label, name }) => {
    const buttons = make("span", {}, button(verb, `${verb}: ${label}`, name));
    if (kind === "message") buttons.append(" ", button("lose", `lose: ${label}`, `drop-${name}`));
    return make("li", {}, make("span", {}, label), buttons);
  });
  if (!made.length) made.push(make("li", { className: "none" }, "nothing"));
  $(id).replaceChildren(...made);
}

document.addEventListener("click", (event) => {
  const move = event.target.closest?.("button[data-move]")?.dataset.move;
  if (move) ask([...play.moves, move]);
});

$("back").addEventListener("click", () => ask(play.moves.slice(0, -1)));
$("step").addEventListener("click", () => (schedule() ? ask([...play.moves, next()]) : ask(play.moves, 1)));
$("end").addEventListener("click", () => (schedule() ? ask(schedule()) : ask(play.moves, RUN)));
$("random").addEventListener("click", () => ask(play.moves, 1));
$("replay").addEventListener("click", () => ask([], RUN));
$("anew").addEventListener("click", () => ask([]));
$("off").addEventListener("change", () => ask(play.moves));
for (const id of ["rule", "world"]) $(id).addEventListener("change", anew);

window.addEventListener("resize", () => play.answer && drawArrows(play.answer));

/** Plays the schedule to its end, where there is one. */
function anew() {
  play.answer = null;
  forget();
  const without = !rule();
  $("off").disabled = without;
  if (without && $("world").value === "rule") $("world").value = "three";
  ask(schedule() ?? []);
}

rules = await (await fetch("/simulator/rules")).json();
$("rule").replaceChildren(make("option", { value: "" }, "none is switched off"),
  ...rules.map((rule) => make("option", { value: rule.name }, rule.rule)));
$("rule").value = rules[0].name;
anew();
