// Draws the steps of a play: the messages as arrows between the lanes of clients and nodes, downwards.

import { $, shape } from "/dom.js";

const HEAD = 40;
const ROW = 28;
const GUTTER = 24;
/** How narrow a lane may be. */
const NARROW = 60;

/** The lanes that are shown: they keep their places when steps are taken back. */
let known = new Set();

export function forget() {
  known = new Set();
  $("arrows").setAttribute("height", 0);
}

export function drawArrows({ steps, nodes, clients, broken, broke }) {
  const svg = $("arrows");
  for (const name of steps.flatMap((step) => [...step.lanes, ...notes(step).map(([name]) => name)])) known.add(name);
  const all = [...clients, ...nodes].map((card) => card.name);
  const names = known.size ? all.filter((name) => known.has(name)) : all;
  const width = Math.max(svg.parentElement.clientWidth, GUTTER + names.length * NARROW);
  const x = (name) => GUTTER + ((names.indexOf(name) + 0.5) * (width - GUTTER)) / names.length;
  const breaches = (step) => broken.map(([breach]) => ({ step, lanes: [], text: `✗ ${breach}`, kind: "breach" }));
  const rows = broke === 0 ? breaches({ text: "before the first step" }) : [];
  rows.push(...steps.flatMap((step, index) => [
    ...step.expired.map(([name, text]) => ({ step, lanes: [name], text, kind: "note expired" })),
    { step, number: index + 1, lanes: step.lanes, text: step.said, kind: step.done ? "" : "nothing" },
    ...notes(step).map(([name, look, text]) => ({ step, lanes: [name], text, kind: `note ${look}` })),
    ...(index + 1 === broke ? breaches(step) : []),
  ]));
  // It does not become lower: what is below would move.
  const height = Math.max(HEAD + rows.length * ROW + 12, Number(svg.getAttribute("height")));
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.replaceChildren();
  for (const name of names) {
    svg.append(shape("path", { class: "lane", d: `M${x(name)} ${HEAD - 4}V${height}` }));
    const [first, second] = nodes.some((card) => card.name === name) ? ["node", name] : name.split(" ");
    svg.append(shape("text", { class: "name", x: x(name), y: 14 }, first));
    svg.append(shape("text", { class: "name", x: x(name), y: 30 }, second));
  }
  rows.forEach((row, index) => drawRow(svg, row, HEAD + (index + 1) * ROW - 6, { x, width, height }));
}

/** What a step turned somebody into: a client with a lease, or a node that has forgotten. */
function notes(step) {
  return step.turns.filter(([, look]) => ["won", "forgot", "votes"].includes(look));
}

function drawRow(svg, { step, number, lanes, text, kind }, y, { x, width, height }) {
  const row = shape("g", { class: `row ${kind}` });
  row.append(shape("title", {}, step.text));
  svg.append(row);
  if (kind === "breach") row.append(shape("rect", { x: 0, y: y - 12, width, height: ROW - 4, rx: 4 }));
  if (number) row.append(shape("text", { class: "number", x: 0, y: y + 4 }, String(number)));
  const [from, to] = lanes.map(x);
  if (to !== undefined) {
    const [side, lost] = [Math.sign(to - from), text.startsWith("lost: ")];
    const tip = lost ? (from + to) / 2 : to;
    row.append(shape("path", { class: "line", d: `M${from} ${y}H${tip}` }));
    const head = lost ? `M${tip - 5} ${y - 5}l10 10m0-10l-10 10` : `M${tip} ${y}l${-8 * side}-4v8z`;
    row.append(shape("path", { class: lost ? "line" : "head", d: head }));
  } else if (from !== undefined) {
    if (text.startsWith("has a lease")) row.append(shape("path", { class: "holds", d: `M${from} ${y}V${height}` }));
    row.append(shape("circle", { cx: from, cy: y, r: 4 }));
  }
  write(row, text, to === undefined ? y + 4 : y - 5, { from, to, width });
}

/** Writes over an arrow, beside a point, or in the middle. */
function write(row, text, y, { from, to, width }) {
  const label = shape("text", { y }, text);
  row.append(label);
  const room = width - GUTTER;
  for (let end = text.length; end > 0 && label.getComputedTextLength() > room; end -= 1) {
    label.textContent = `${text.slice(0, end)}…`;
  }
  const long = label.getComputedTextLength();
  const beside = from + 9 + long <= width ? from + 9 : from - 9 - long;
  const left = to !== undefined ? (from + to - long) / 2 : from !== undefined ? beside : (width - long) / 2;
  label.setAttribute("x", Math.max(GUTTER, Math.min(left, width - long)));
}
