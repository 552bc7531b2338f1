// Against a real `fencing serve`: FENCING_URL is its address, FENCING_SERVE_STATUS that of its metrics,
// FENCING_SERVE_PID its process. The client FENCING_CLIENT_TOKEN may lock everything, the client `nobody` nothing.
import assert from "node:assert/strict";
import http from "node:http";
import { createRequire } from "node:module";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import test from "node:test";
import { acquire, fenced, Held, InDoubt, Lost, Refused, Stale, Unavailable, withLease } from "../index.js";

const { Client, Pool } = createRequire(import.meta.url)("pg");
const pid = Number(process.env.FENCING_SERVE_PID);

async function untilWaiting(number) {
  const end = performance.now() + 40_000;
  let metrics;
  do {
    assert.ok(performance.now() < end, metrics);
    await sleep(20);
    metrics = await (await fetch(`http://${process.env.FENCING_SERVE_STATUS}/metrics`)).text();
  } while (!metrics.includes(`\nfencing_waiting ${number}\n`));
}

const lost = (lease) => new Promise((ended) => (lease.lost ? ended() : lease.signal.addEventListener("abort", ended)));

test("held by another", async () => {
  await withLease("held", { ttl: 30_000 }, async (lease) => {
    const held = await acquire("held").catch((error) => error);
    assert.ok(held instanceof Held && held.retryAfter > 0, held);
    assert.equal(lease.lost, false);
    assert.equal(lease.sequencer, `${lease.token} held`);
    assert.equal(lease.headers["Fencing-Token"], String(lease.token));
  });
  const later = await acquire("held", { wait: 20_000 });
  assert.equal(later.signal.aborted, false);
  assert.equal(await later.release(), true);
  assert.equal(await later.release(), false);
  assert.equal(later.lost, true);
  assert.ok(later.signal.reason instanceof Lost);
  assert.throws(() => later.check(), Lost);
});

test("it is renewed beyond its TTL", async () => {
  const lease = await acquire("renewed", { ttl: 12_000 });
  await sleep(14_000);
  assert.equal(lease.lost, false);
  await assert.rejects(acquire("renewed"), Held);
  await lease[Symbol.asyncDispose]();
  await (await acquire("renewed", { wait: 20_000 })).release();
});

test("a wait that is longer than the TTL", async () => {
  const first = await acquire("waits", { ttl: 12_000 });
  const second = acquire("waits", { ttl: 12_000, wait: 60_000 });
  await sleep(14_000);
  await first.release();
  const lease = await second;
  assert.equal(lease.lost, false);
  await lease.release();
});

test("names of all kinds", async () => {
  for (const name of ["a b/ü%2F", "a?b#c/d", "x+y;z", "weiß/日本"]) {
    await withLease(name, {}, (lease) => assert.equal(lease.sequencer, `${lease.token} ${name}`));
  }
});

test("what is wrong is refused", async () => {
  for (const name of ["", "a//b", "../a", "a/../b", "./a"]) await assert.rejects(acquire(name), Refused);
  await assert.rejects(acquire("a", { ttl: 1e9 }), Refused);
  await assert.rejects(acquire("a", { url: "ftp://127.0.0.1" }), Refused);
});

test("who is unknown or has no right is refused", async () => {
  for (const clientToken of ["unknown", "nobody"]) await assert.rejects(acquire("a", { clientToken }), Refused);
});

test("an error in the work releases", async () => {
  const failing = withLease("error", { ttl: 60_000 }, () => { throw new RangeError("of the work"); });
  await assert.rejects(failing, RangeError);
  await (await acquire("error", { wait: 20_000 })).release();
});

test("a wait that is given up leaves no lock behind", async () => {
  const first = await acquire("aborted", { ttl: 30_000 });
  const controller = new AbortController();
  const waiting = acquire("aborted", { ttl: 600_000, wait: 60_000, signal: controller.signal });
  await untilWaiting(1);
  controller.abort(new RangeError("no more"));
  await assert.rejects(waiting, RangeError);
  // A grant that crossed the end of the wait would last for its TTL.
  await untilWaiting(0);
  await first.release();
  await (await acquire("aborted", { wait: 50_000 })).release();
});

test("nobody is there, or no lock service", async () => {
  const free = net.createServer().listen(0, "127.0.0.1");
  await new Promise((listening) => free.on("listening", listening));
  const { port } = free.address();
  await new Promise((closed) => free.close(closed));
  await assert.rejects(acquire("a", { url: `http://127.0.0.1:${port}` }), Unavailable);
  for (const text of ["{}", "hello", "x".repeat(100_000)]) {
    const other = http.createServer((_, answer) => answer.writeHead(201).end(text)).listen(0, "127.0.0.1");
    await new Promise((listening) => other.on("listening", listening));
    await assert.rejects(acquire("a", { url: `http://127.0.0.1:${other.address().port}` }), InDoubt);
    other.closeAllConnections();
    other.close();
  }
});

test("a stale write is refused", async () => {
  const client = new Client({ host: process.env.PGHOST, database: process.env.PGDATABASE, user: "fencing" });
  await client.connect();
  try {
    await client.query("CREATE TABLE files (path text PRIMARY KEY, body text)");
    await client.query("INSERT INTO files VALUES ('files/report', '')");
    const old = await acquire("files/report");
    await old.release();
    // As a holder that has slept, and does not know that its lease is over.
    const awake = { resource: old.resource, token: old.token, check() {} };
    const write = (body) => () => client.query("UPDATE files SET body = $1", [body]);
    await fenced(client, awake, write("old"));
    await withLease("files/report", { wait: 20_000 }, (lease) => fenced(client, lease, write("new")));
    await assert.rejects(fenced(client, awake, write("late")), Stale);
    await assert.rejects(fenced(client, old, write("late")), Lost);
    const next = { ...awake, token: awake.token + 1_000 };
    const caught = fenced(client, next, () => client.query("SELECT 1 / 0").catch(() => {}));
    await assert.rejects(fenced(client, next, write("beside")), Refused);
    await assert.rejects(caught, /nothing was written/);
    await assert.rejects(fenced(new Pool(), next, write("pool")), Refused);
    assert.deepEqual((await client.query("SELECT body FROM files")).rows, [{ body: "new" }]);
  } finally {
    await client.end();
  }
});

// The last one: it stops the service for a while.
test("a service that hangs loses the lease by its deadline", async () => {
  const lease = await acquire("hangs", { ttl: 8000 });
  const keep = setInterval(() => {}, 1000);
  process.kill(pid, "SIGSTOP");
  try {
    await lost(lease);
    assert.throws(() => lease.check(), Lost);
    await assert.rejects(async () => lease.fetch("http://127.0.0.1:1"), Lost);
  } finally {
    process.kill(pid, "SIGCONT");
    clearInterval(keep);
  }
  await lease.release();
  const next = await acquire("hangs", { wait: 50_000 });
  assert.ok(next.token > lease.token);
  await next.release();
});
