// What both pages need to draw, and to ask the service.

export const $ = (id) => document.getElementById(id);

export function set(element, text, title = "") {
  if (element.textContent !== text) element.textContent = text;
  if (element.title !== title) element.title = title;
}

/** Makes an element. Its `label` is for those who do not see it. */
export function make(name, { dataset, label, ...properties }, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  Object.assign(made.dataset, dataset);
  if (label) made.setAttribute("aria-label", label);
  made.append(...children);
  return made;
}

/** Makes a part of an SVG. */
export function shape(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

/** Says what went wrong. */
export function tell(text) {
  set($("answer"), text);
  $("answer").hidden = false;
}

/** Posts to the service. Returns the text of its answer; an error says why there is none. */
export async function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-Page": "1" };
  const answer = await fetch(path, { method: "POST", headers, body }).catch(() => null);
  if (!answer) throw new Error("The service does not answer.");
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.startsWith("{") ? JSON.parse(text).detail : text);
  return text;
}

/** Sends an order. Returns whether the service took it. */
export async function send(path) {
  $("answer").hidden = true;
  try {
    await post(path);
    return true;
  } catch (error) {
    tell(error.message);
    return false;
  }
}
