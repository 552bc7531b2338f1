#!/usr/bin/env node
// A fenced write in a transaction of node-pg (`pg`), on PostgreSQL.
//
// with_pg.js FOLDER_OF_THE_SOCKET DATABASE TOKEN BODY: ends with 0 if it wrote, 65 if the token is
// stale, 75 if others were in the way each time, 69 if the database went away. It may have
// written then: look.
"use strict";
const { Client } = require("pg");

const RETRYABLE = ["40001", "40P01", "55P03"]; // serialization failure, deadlock, no lock

/** What an error means, from any statement or from the commit. */
function fate(error) {
  if (error.code === "ZF412") return "stale";
  if (RETRYABLE.includes(error.code)) return "retry";
  // Without a SQLSTATE it did not come from the server: ECONNREFUSED, a connection that broke.
  return /^(08|57P|53300)/.test(error.code) || !error.severity ? "down" : "error";
}

async function admit(client, resource, token) {
  await client.query("BEGIN");
  await client.query("SET LOCAL lock_timeout = '200ms'");
  await client.query("SELECT fencing_admit($1, $2)", [resource, token]);
}

async function write(options, resource, token, body) {
  const client = new Client(options);
  client.on("error", () => {}); // The statement that is under way says it too.
  try {
    await client.connect();
    // Once for each token, alone: a deadlock in the transaction that writes cannot take the mark back then.
    await admit(client, resource, token);
    await client.query("COMMIT");
    await admit(client, resource, token);
    await client.query("UPDATE files SET body = $2 WHERE path = $1", [resource, body]);
    await client.query("COMMIT");
  } finally {
    await client.end().catch(() => {}); // Rolls back what is not committed.
  }
}

async function main(host, database, token, body) {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      await write({ host, database, user: "fencing" }, "files/report", token, body);
      console.log(`written with token ${token}`);
      return 0;
    } catch (error) {
      const words = { stale: ["refused", 65], down: ["down", 69], retry: ["in the way"] };
      const [said, end] = words[fate(error)] ?? [];
      if (!said) throw error;
      console.log(`${said}: ${error.message}`);
      if (end) return end;
      await new Promise((later) => setTimeout(later, Math.random() * 20 * 2 ** attempt));
    }
  }
  return 75;
}

main(...process.argv.slice(2)).then((end) => (process.exitCode = end));
