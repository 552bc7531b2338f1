// Draws the lanes in one picture: who had a lease when, and which writes the files took.

import { $, shape } from "/dom.js";
import { full, now, short, world } from "/world.js";

/** How long a picture is: the last seconds, or the story. */
const LONG = 15000;
const STORY = 27000;
const AHEAD = 4000;
/** The lanes, and how high each is. */
const LANES = [["1", "client 1", 66], ["2", "client 2", 56], ["with", "file with the fence", 66],
  ["without", "file without a fence", 46]];

/** From when to when the story runs, if it is shown. */
export const view = { from: null, to: null };

/** Names a shape, for the pointer and for those who do not see it. */
function named(element, name) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", name);
  element.append(shape("title", {}, name));
  return element;
}

export function drawLanes() {
  const at = view.to ?? now();
  const svg = $("lanes");
  const width = svg.clientWidth || 300;
  const [left, above] = width > 700 ? [150, 0] : [0, 18];
  const start = view.from === null ? at - LONG : view.from - 500;
  const end = Math.max(at, view.from === null ? at : view.from + STORY) + AHEAD;
  const x = (time) => left + (Math.max(time - start, 0) / (end - start)) * (width - left);
  const picture = { svg, at, start, x, left, width, labels: [], taken: [] };
  svg.replaceChildren();
  let top = 0;
  const names = [];
  const lanes = LANES.map(([id, name, height]) => {
    const group = shape("g", { id: `lane-${id}`, class: id === "2" ? "two" : "" });
    names.push(shape("text", { class: "name", x: 0, y: top + (above ? 13 : 30) }, name));
    top += height + above;
    svg.append(shape("path", { class: "now", d: `M0 ${top}H${width}` }));
    return { ...picture, id, group, top: top - height };
  });
  svg.setAttribute("height", top);
  svg.setAttribute("viewBox", `0 0 ${width} ${top}`);
  if (view.to === null) svg.append(shape("path", { class: "now", d: `M${x(at)} 0V${top}` }));
  const [one, two, fenced, plain] = lanes;
  svg.append(one.group, two.group);
  for (const lane of [one, two]) drawClient(lane);
  for (const lane of [fenced, plain]) drawFile(lane, lanes);
  drawMark(fenced);
  svg.append(fenced.group, plain.group, ...names);
  if (view.from === null) label(plain, [[`${LONG / 1000} s ago`, left, 43, 0]], "tick");
  if (view.to === null) label(plain, [["now", x(at) - 4, 43, 1]], "tick");
  for (const it of picture.labels.filter((it) => it.first)) place(picture, it);
  for (const it of picture.labels.filter((it) => !it.first)) place(picture, it);
}

/** Keeps labels away from a shape. */
function block({ taken, top }, from, to, above, below) {
  taken.push({ from, to, above: top + above, below: top + below });
}

/** Asks for a label at the first free of these spots: a text, and where; 0 is its beginning, 1 its end. */
function label({ labels, group, top }, spots, kind = "", first = false) {
  labels.push({ group, top, spots, kind, first });
}

/** Writes a label where it meets nothing else, or not at all. */
function place({ left, width, taken }, { group, top, spots, kind }) {
  const element = shape("text", { class: kind });
  group.append(element);
  for (const [text, x, y, part] of spots) {
    element.textContent = text;
    const long = element.getComputedTextLength();
    const from = Math.max(left, Math.min(x - part * long, width - long));
    const box = { from: from - 3, to: from + long + 3, above: top + y - 10, below: top + y + 3 };
    const meets = (it) => box.from < it.to && it.from < box.to && box.above < it.below && it.above < box.below;
    if (taken.some(meets)) continue;
    taken.push(box);
    element.setAttribute("x", from);
    element.setAttribute("y", top + y);
    return;
  }
  element.remove();
}

function drawClient(lane) {
  const { id, group, x, at, start, top } = lane;
  const client = world.clients[id];
  const bar = (kind, from, to) => {
    block(lane, x(from), x(to), 17, 33);
    const width = Math.max(x(to) - x(from), 1);
    return shape("rect", { class: kind, x: x(from), y: top + 17, width, height: 16, rx: 3 });
  };
  // The newest first: where there is no room, an old text is left out.
  for (const lease of client.leases.toReversed()) {
    const over = Math.min(lease.end ?? lease.until, lease.until);
    if (over <= start || lease.start > at) continue;
    const solid = bar("lease", lease.start, Math.min(over, at));
    group.append(named(solid, `lease of client ${id}, token ${full(lease.token)}`));
    if (over > at) group.append(bar("belief", at, lease.until));
    const spot = [x(lease.start), 12, 0];
    label(lane, [[`lease, token ${short(lease.token)}`, ...spot], [short(lease.token), ...spot]]);
    const ends = [46, 60].map((y) => ["lease over", x(over), y, 0]);
    if (over < at && over === lease.until) label(lane, ends);
  }
  for (const nap of client.naps.toReversed()) {
    const end = Math.min(nap.end ?? at, at);
    if (end <= start || nap.start > at) continue;
    if (nap.believes?.until < end) {
      const token = nap.believes.token;
      const text = `client ${id} still believes in token ${full(token)}`;
      group.append(named(bar("mistaken", nap.believes.until, end), text));
      const spot = [x(nap.believes.until), 12, 0];
      const said = [`client ${id} believes that it holds ${short(token)}`, `believes in ${short(token)}`];
      label(lane, said.map((it) => [it, ...spot]), "wrong", true);
    }
    let path = "";
    for (let dash = x(nap.start); dash < x(end); dash += 9) {
      path += `M${dash} ${top + 35}L${Math.min(dash + 7, x(end))} ${top + 15}`;
    }
    group.append(shape("path", { class: "asleep", d: path }));
    label(lane, [["asleep", x(nap.start), 46, 0], ["asleep", x(nap.start), 60, 0]]);
  }
  for (const wait of client.waits.toReversed()) {
    const end = Math.min(wait.end ?? at, at);
    if (end <= start || end - wait.start < 200) continue;
    group.append(shape("path", { class: "wait", d: `M${x(wait.start)} ${top + 25}H${x(end)}` }));
    label(lane, [["waits", x(wait.start), 46, 0]]);
  }
}

/** Draws the writes to a file, each with a line from its client. */
function drawFile(lane, lanes) {
  const { id, group, x, at, start, svg, top } = lane;
  for (const it of world.files[id].writes.toReversed()) {
    if (it.at < start || it.at > at) continue;
    // Beside the other file's: what the fence refuses does not go on to the file below it.
    const [left, from] = [x(it.at) - (id === "without" ? 11 : 0), lanes[it.client - 1]];
    svg.append(shape("path", { class: it.over ? "late" : "sent", d: `M${left} ${from.top + 25}V${top + 14}` }));
    lane.taken.push({ from: left - 2, to: left + 2, above: from.top + 25, below: top + 14 });
    block(lane, left - 9, left + 9, 4, 24);
    group.append(mark(it, left, top));
    if (it.over) {
      const spots = [[left + 6, 29, 0], [left - 6, 46, 1], [left - 6, 60, 1]];
      if (id === "with") label(from, spots.map((spot) => ["late write", ...spot]), "wrong", true);
    }
    const [what, kind] = it.refused ? ["refused", "safe"] : it.older ? ["overwrote", "wrong"] : [null, "tick"];
    const newer = short(it.newer ?? it.token);
    const long = it.refused ? `refused: ${short(it.token)} is below ${newer}` : `overwrote ${newer}`;
    const spots = [[long, left + 13, 18, 0], [long, left - 13, 18, 1], [what, left + 13, 18, 0], [what, left, 38, 0.5]];
    label(lane, what ? spots : [[short(it.token), left + 12, 18, 0], [short(it.token), left, 38, 0.5]], kind, !!what);
  }
}

/** The mark of a write. What it came to shows in its form and its colour. */
function mark(write, left, top) {
  const [kind, d, what] = write.refused
    ? ["refused", `M${left} ${top + 4}l8 3v6c0 5-4 8-8 10c-4-2-8-5-8-10v-6z`, "refused"]
    : write.older ? ["corrupt", `M${left} ${top + 5}l9 17h-18z`, "overwrote a newer write"]
    : ["stored", `M${left - 6.5} ${top + 14}a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0z`, "stored"];
  const element = shape("g", { class: kind });
  element.append(shape("path", { d }));
  const bars = { refused: `M${left - 4} ${top + 13}h8`, corrupt: `M${left} ${top + 11}v5M${left} ${top + 18}v2` };
  if (bars[kind]) element.append(shape("path", { class: "bar", d: bars[kind] }));
  const late = write.over ? ", although its lease was over" : "";
  return named(element, `${what}: client ${write.client}, token ${full(write.token)}${late}`);
}

/** Draws the high-water mark: the largest token that the fence has seen. */
function drawMark(lane) {
  const { group, x, at, start, top } = lane;
  const rises = world.files.with.writes.filter((it) => !it.refused && !it.older && it.at <= at);
  const levels = rises.filter((it, index) => it.token !== rises[index - 1]?.token);
  levels.forEach((level, index) => {
    const end = levels[index + 1]?.at ?? at;
    if (end <= start) return;
    const step = shape("path", { class: "step", d: `M${x(level.at)} ${top + 51}v-5H${x(end)}` });
    group.append(named(step, `high-water mark: ${full(level.token)}`));
    const spot = [x(level.at) + 6, 61, 0];
    const texts = [`high-water mark ${short(level.token)}`, short(level.token)];
    label(lane, texts.map((it) => [it, ...spot]), "tick", index === levels.length - 1);
  });
}
