// Draws the lanes: who had a lease when, and which writes the files took.

import { full, now, short, world } from "/world.js";

const SVG = "http://www.w3.org/2000/svg";
const LONG = 15000;
const AHEAD = 4000;
/** How wide a letter is, at most. */
const LETTER = 6.8;

/** From when on all is shown, if the story runs. */
export const view = { from: null };

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

/** Names a shape, for the pointer and for those who do not see it. */
function named(element, name) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", name);
  element.append(shape("title", {}, name));
  return element;
}

/** Returns since when there is a picture. */
function since(at) {
  return view.from === null ? at - LONG : Math.min(view.from - 500, at - LONG);
}

/** Returns the name of the time that is shown. */
export function span() {
  const at = now();
  return `The last ${Math.round((at - since(at)) / 1000)} seconds`;
}

export function drawLanes() {
  const at = now();
  for (const number of [1, 2]) drawClient(number, at);
  for (const name of ["with", "without"]) drawFile(name, at);
}

/** A lane that is begun anew. */
function begin(id, at, label) {
  const svg = document.getElementById(id);
  const [width, height] = [svg.clientWidth || 300, svg.clientHeight || 60];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", label);
  svg.replaceChildren();
  const start = since(at);
  const x = (time) => ((time - start) / (at - start + AHEAD)) * width;
  svg.append(shape("line", { class: "now", x1: x(at), x2: x(at), y1: 0, y2: height }));
  const taken = [];
  /** Writes a text where it meets no other; returns whether there was room. */
  const write = (left, y, text, attributes = {}) => {
    const long = text.length * LETTER;
    const from = Math.max(0, Math.min(left, width - long));
    if (taken.some((it) => from < it.to + 6 && it.from < from + long + 6 && Math.abs(it.y - y) < 12)) return false;
    taken.push({ from, to: from + long, y });
    svg.append(shape("text", { x: from, y, ...attributes }, text));
    return true;
  };
  if (id === "lane-1") write(x(at) + 3, height - 2, "now", { class: "tick" });
  return { svg, x, start, width, height, write };
}

function drawClient(number, at) {
  const client = world.clients[number];
  const label = `client ${number}: ${client.leases.length} leases, ${client.asleep ? "asleep" : "awake"}`;
  const { svg, x, start, write } = begin(`lane-${number}`, at, label);
  svg.classList.toggle("two", number === 2);
  for (const wait of client.waits) {
    const end = Math.min(wait.end ?? at, at);
    if (end > start) svg.append(shape("line", { class: "wait", x1: Math.max(x(wait.start), 0), x2: x(end), y1: 25, y2: 25 }));
  }
  // The newest first: where there is no room, an old text is left out.
  for (const lease of client.leases.toReversed()) {
    const solid = Math.min(lease.end ?? lease.until, lease.until, at);
    const left = Math.max(x(lease.start), 0);
    if (solid <= start || lease.start > at) continue;
    const bar = shape("rect", { class: "lease", x: left, y: 17, width: Math.max(x(solid) - left, 1), height: 16, rx: 3, "data-token": lease.token });
    svg.append(named(bar, `lease of client ${number}, token ${full(lease.token)}`));
    if (!lease.end && lease.until > at) {
      svg.append(shape("rect", { class: "belief", x: x(at), y: 18, width: x(lease.until) - x(at), height: 14, rx: 3 }));
    }
    write(left, 12, `token ${short(lease.token)}`);
    const ran = !lease.end || lease.end >= lease.until;
    if (solid < at && ran) write(x(solid), 45, "lease over");
  }
  for (const nap of client.naps.toReversed()) {
    const end = Math.min(nap.end ?? at, at);
    if (end <= start || nap.start > at) continue;
    const [from, to] = [Math.max(x(nap.start), 0), x(end)];
    const over = nap.believes?.until;
    if (over < end) {
      const left = Math.max(x(over), 0);
      const text = `client ${number} still believes in token ${full(nap.believes.token)}`;
      svg.append(named(shape("rect", { class: "mistaken", x: left, y: 18, width: to - left, height: 14, rx: 3 }), text));
    }
    let path = "";
    for (let dash = from; dash < to; dash += 9) path += `M${dash} 35 ${Math.min(dash + 7, to)} 15`;
    svg.append(shape("path", { class: "asleep", d: path }));
    write(from + 2, 59, "asleep");
  }
}

function drawFile(name, at) {
  const file = world.files[name];
  const kept = file.content ? `holds what ${file.content.text} wrote` : "empty";
  const lane = begin(`lane-${name}`, at, `file ${name === "with" ? "with the fence" : "without the fence"}: ${kept}`);
  const { svg, x, start, write } = lane;
  for (const it of file.writes.toReversed()) {
    if (it.at < start || it.at > at) continue;
    svg.append(mark(it, x(it.at)));
    write(x(it.at) - 12, 36, `by ${it.client}`, { class: "tick" });
  }
  if (name === "with") drawLevels(lane, file.writes, at);
}

/** The mark of a write. What it came to shows in its form and its colour. */
function mark(write, left) {
  const [kind, d, what] = write.refused
    ? ["refused", `M${left} 4l8 3v6c0 5-4 8-8 10c-4-2-8-5-8-10v-6z`, "refused"]
    : write.older ? ["corrupt", `M${left} 5l9 17h-18z`, "overwrote a newer write"]
    : ["stored", `M${left - 6.5} 14a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0z`, "stored"];
  const late = write.late ? ", although its lease was over" : "";
  const element = shape("g", { class: kind });
  element.append(shape("path", { d }));
  if (kind === "refused") element.append(shape("path", { class: "bar", d: `M${left - 4} 13h8` }));
  if (kind === "corrupt") element.append(shape("path", { class: "bar", d: `M${left} 11v5M${left} 18v2` }));
  return named(element, `${what}: client ${write.client}, token ${full(write.token)}${late}`);
}

/** Draws the largest token that the fence has seen: a stair with a step for each rise. */
function drawLevels({ svg, x, start, height, write }, writes, at) {
  const rises = [];
  for (const it of writes) {
    if (it.refused || it.older || it.at > at) continue;
    if (!rises.length || BigInt(it.token) > BigInt(rises.at(-1).token)) rises.push(it);
  }
  // What rose before the picture begins is a level, and no step.
  const base = rises.findLast((it) => it.at < start);
  const levels = [{ token: base?.token ?? null, at: start }, ...rises.filter((it) => it.at >= start)];
  const gap = Math.min(16, (height - 58) / Math.max(levels.length - 1, 1));
  levels.forEach((level, index) => {
    const y = height - 4 - index * gap;
    const end = levels[index + 1]?.at ?? at;
    const rise = index ? `M${x(level.at)} ${y + gap}V${y}` : `M0 ${y}`;
    const text = level.token === null ? "none" : `largest token seen: ${full(level.token)}`;
    const step = shape("path", { class: "step", d: `${rise}H${x(end)}`, "data-level": level.token ?? "none" });
    svg.append(named(step, text));
  });
  // The newest level keeps its number in any case.
  levels.toReversed().forEach((level, index) => {
    if (level.token !== null) write(x(level.at) + 4, height - 7 - (levels.length - 1 - index) * gap, short(level.token), { "data-number": level.token });
  });
}
