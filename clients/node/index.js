// Leases with fencing tokens, from `fencing serve`. index.d.ts says what each function does.

// Time for an answer beside the time that the service may wait for the lock, in milliseconds.
const ANSWER = 10_000;
const MAX_ANSWER = 64 * 1024;
const TRIES = 5;
const RETRYABLE = ["40001", "40P01", "55P03"];

Symbol.asyncDispose ??= Symbol.for("Symbol.asyncDispose");

export class FencingError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

export class Held extends FencingError {
  constructor(message, retryAfter) {
    super(message);
    this.retryAfter = retryAfter;
  }
}

export class Unavailable extends FencingError {}
export class InDoubt extends FencingError {}
export class Refused extends FencingError {}
export class Lost extends FencingError {}
export class Stale extends FencingError {}

class Service {
  #base;
  #headers = { accept: "application/json" };

  constructor({ url = process.env.FENCING_URL ?? "http://127.0.0.1:7433", clientToken = process.env.FENCING_CLIENT_TOKEN }) {
    let parsed;
    try {
      parsed = new URL(url);
    } catch {
      throw new Refused("the URL of the service must be http://HOST:PORT or https://HOST:PORT");
    }
    if (!/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash) {
      throw new Refused("the URL of the service must be http://HOST:PORT or https://HOST:PORT");
    }
    this.#base = parsed.href.replace(/\/+$/, "");
    if (clientToken) this.#headers.authorization = `Bearer ${clientToken}`;
  }

  // Sends a request once. It may have been carried out, if it throws InDoubt.
  async ask(method, path, timeout, body, signal) {
    const limit = AbortSignal.timeout(Math.max(1, Math.ceil(timeout)));
    const headers = { ...this.#headers };
    if (body) headers["content-type"] = "application/json";
    let answer, text;
    try {
      answer = await fetch(this.#base + path, {
        method, headers, body: body && JSON.stringify(body), redirect: "manual", signal: signal ? either(signal, limit) : limit,
      });
      text = await bounded(answer);
    } catch (error) {
      signal?.throwIfAborted();
      const code = error.cause?.code ?? error.cause?.errors?.[0]?.code;
      if (["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes(code)) {
        throw new Unavailable(`the lock service cannot be reached: ${code}`, { cause: error });
      }
      throw new InDoubt(`${method}: no answer from the lock service: ${error.message}`, { cause: error });
    }
    return read(answer, text);
  }
}

function either(one, other) {
  if (AbortSignal.any) return AbortSignal.any([one, other]);
  const both = new AbortController();
  for (const signal of [one, other]) {
    if (signal.aborted) both.abort(signal.reason);
    signal.addEventListener("abort", () => both.abort(signal.reason), { once: true });
  }
  return both.signal;
}

async function bounded(answer) {
  const text = [];
  let length = 0;
  for await (const chunk of answer.body ?? []) {
    length += chunk.length;
    if (length > MAX_ANSWER) throw new Error("the answer is too long");
    text.push(chunk);
  }
  return Buffer.concat(text).toString();
}

function read(answer, text) {
  let json = {};
  try {
    if (text) json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  if (answer.status >= 200 && answer.status < 300) {
    if (typeof json !== "object" || !json) throw new InDoubt(`the answer of the lock service cannot be read (HTTP ${answer.status})`);
    return json;
  }
  const why = String(json?.detail ?? `HTTP ${answer.status}, and not from \`fencing serve\``);
  switch (json?.type) {
    case "urn:fencing:held": {
      const seconds = Number(answer.headers.get("retry-after") ?? NaN);
      throw new Held(why, Number.isFinite(seconds) ? seconds * 1000 : undefined);
    }
    case "urn:fencing:no-lease":
    case "urn:fencing:superseded":
      throw new Lost(why);
    case "urn:fencing:in-doubt":
      throw new InDoubt(why);
  }
  if (answer.status >= 500 || answer.status === 429) throw new Unavailable(why);
  if (answer.status >= 400) throw new Refused(why);
  throw new FencingError(`HTTP ${answer.status}: this is not \`fencing serve\``);
}

export class Lease {
  #service;
  #path;
  #signature;
  #deadline;
  #timer;
  #over = new AbortController();
  #cause;

  // Only `acquire` makes leases.
  constructor(service, resource, ttl, answer, start) {
    this.resource = resource;
    this.ttl = ttl;
    this.token = answer.token;
    this.sequencer = answer.sequencer;
    this.#service = service;
    this.#path = `/leases/${encodeURIComponent(answer.lease_id)}`;
    this.#signature = answer.signature;
    this.#deadline = start + answer.valid_for_ms;
  }

  get headers() {
    const headers = { "Fencing-Token": String(this.token) };
    if (this.#signature) headers["Fencing-Signature"] = this.#signature;
    return headers;
  }

  get validFor() {
    return this.#over.signal.aborted ? 0 : Math.max(0, this.#deadline - performance.now());
  }

  get lost() {
    return this.validFor === 0;
  }

  // Timers may be late: whoever asks for the signal learns of a deadline that has passed.
  get signal() {
    if (this.lost) this.#end();
    return this.#over.signal;
  }

  check() {
    if (this.lost) throw new Lost(`the lease of ${this.resource} has ended`, { cause: this.#cause });
  }

  fetch(url, init = {}) {
    this.check();
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(this.headers)) headers.set(name, value);
    const signal = init.signal ? either(init.signal, this.signal) : this.signal;
    return fetch(url, { ...init, headers, signal });
  }

  async release() {
    const wasHeld = !this.lost;
    this.#end();
    try {
      await this.#service.ask("DELETE", this.#path, ANSWER);
    } catch (error) {
      if (error instanceof Lost) return false;
      if (!(error instanceof FencingError)) throw error;
    }
    return wasHeld;
  }

  async [Symbol.asyncDispose]() {
    await this.release();
  }

  // Renews from now on. After a wait only a renewal says for how long the lease lasts.
  async _keep() {
    if (this.validFor < this.ttl / 2) {
      try {
        await this.#renew(ANSWER);
      } catch (error) {
        await this.release();
        throw error;
      }
    }
    this.#renewIn(this.ttl / 3);
    return this;
  }

  async #renew(timeout) {
    const start = performance.now();
    const answer = await this.#service.ask("PUT", this.#path, timeout);
    // One that comes after the release brings nothing back.
    if (!this.#over.signal.aborted) this.#deadline = start + Number(answer.valid_for_ms ?? 0);
  }

  #renewIn(pause) {
    this.#timer = setTimeout(() => this.#turn(), Math.min(pause, this.validFor));
    // A program that has nothing else to do ends, and its lease with it.
    this.#timer.unref();
  }

  async #turn() {
    if (this.lost) return this.#end();
    // The end is told in time, also if the service does not answer.
    const end = setTimeout(() => this.lost && this.#end(), this.validFor + 1);
    end.unref();
    let pause = this.ttl / 3;
    try {
      await this.#renew(Math.min(this.validFor, this.ttl / 3));
    } catch (error) {
      this.#cause = error;
      if (error instanceof Lost) this.#end();
      pause = this.ttl / 30;
    }
    clearTimeout(end);
    if (this.lost) this.#end();
    else this.#renewIn(pause);
  }

  #end() {
    clearTimeout(this.#timer);
    if (!this.#over.signal.aborted) this.#over.abort(new Lost(`the lease of ${this.resource} has ended`, { cause: this.#cause }));
  }
}

export async function acquire(resource, { ttl = 10_000, wait = 0, signal, ...options } = {}) {
  const service = new Service(options);
  signal?.throwIfAborted();
  // Each segment by itself: a name may have slashes, and nothing in it is a part of the URL.
  const segments = resource.split("/");
  if (segments.some((segment) => ["", ".", ".."].includes(segment))) throw new Refused(`${resource} is not the name of a resource`);
  const path = `/leases/${segments.map(encodeURIComponent).join("/")}`;
  const start = performance.now();
  const answer = await service.ask("POST", path, wait + ANSWER, { ttl_ms: ttl, wait_ms: wait }, signal);
  if (!Number.isSafeInteger(answer.token) || !answer.lease_id || !Number.isFinite(answer.valid_for_ms)) {
    throw new InDoubt("the answer of the lock service is not a lease");
  }
  return new Lease(service, resource, ttl, answer, start)._keep();
}

export async function withLease(resource, options, work) {
  const lease = await acquire(resource, options);
  try {
    return await work(lease);
  } finally {
    await lease.release();
  }
}

// Clients in a fenced transaction. A second call would write in the same transaction, or after its end.
const busy = new WeakSet();

export async function fenced(client, lease, work) {
  if (client.totalCount !== undefined) throw new Refused("a transaction needs one connection: give a client of the pool");
  if (busy.has(client)) throw new Refused("this client is in a fenced transaction: await it, or use another client");
  busy.add(client);
  try {
    return await admitted(client, lease, work);
  } finally {
    busy.delete(client);
  }
}

async function admitted(client, lease, work) {
  const admit = () => client.query("SELECT fencing_admit($1, $2)", [lease.resource, lease.token]);
  for (let attempt = 0; ; attempt++) {
    try {
      // Once for each token, alone: a deadlock in the transaction that writes cannot take the mark back then.
      await transaction(client, lease, admit);
      break;
    } catch (error) {
      if (!RETRYABLE.includes(error.code) || attempt + 1 === TRIES) throw error;
      await new Promise((later) => setTimeout(later, Math.random() * 20 * 2 ** attempt));
    }
  }
  return transaction(client, lease, async () => {
    await admit();
    return work(client);
  });
}

async function transaction(client, lease, work) {
  lease.check();
  await client.query("BEGIN");
  try {
    const result = await work();
    if ((await client.query("COMMIT"))?.command === "ROLLBACK") throw new FencingError("a statement has failed: nothing was written");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    if (error.code === "ZF412") throw new Stale(error.message, { cause: error });
    throw error;
  }
}
