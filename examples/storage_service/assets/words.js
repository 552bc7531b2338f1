// What the events are in words.

import { EVERY_FILE, full, tail } from "/world.js";

/** Returns what an event is, and why it is so. */
export function words(event) {
  const who = `client ${event.client}`;
  const token = event.token ? `token ${full(event.token)}` : "";
  const fenced = EVERY_FILE[event.file] === "with";
  const file = event.file ? `the file ${fenced ? "with the fence" : "without a fence"}` : "";
  switch (event.kind) {
    case "asks":
      return [`${who} asks for a lease`, "It asks all lock nodes at once. It has the lease when a majority of them grants it. (docs/assurance/protocol.md, “Acquire”)"];
    case "granted":
      return [`${who} has the lease, ${token}`, "The token is larger than that of every earlier lease of this file. The client shows it with each write. (docs/assurance/protocol.md, “Acquire”)"];
    case "not-granted":
      return [`${who} has no lease: ${event.why}`, "It asked until its wait was over. (docs/assurance/protocol.md, “Waiting”)"];
    case "gives-up":
      return [`${who} waits no longer`, "Nothing was granted."];
    case "renewed":
      return [`${who} renews its lease`, "A watchdog of the client renews each third of the lease's time. It runs on the client's thread: asleep, it does not. (docs/assurance/protocol.md, “Renew, release”)"];
    case "lost":
      return [`${who} notices that its lease is lost: ${event.why}`, "A client that is awake stops its work here. Earlier requests cannot be undone: that is what the fence is for."];
    case "released":
      return [`${who} releases its lease`, "The next client need not wait until it would have run out. (docs/assurance/protocol.md, “Renew, release”)"];
    case "asleep":
      return [`${who} falls asleep${event.within_a_write ? " in the middle of a write" : ""}`, event.within_a_write
        ? "It has looked at its lease, found it valid, and not sent the write yet. Its whole thread stops, as in a long garbage collection."
        : "Its whole thread stops, as in a long garbage collection. The renewal of its lease stops with it."];
    case "awake":
      return [`${who} wakes up`, event.within_a_write
        ? "It continues: it sends the write. It cannot know that time has passed."
        : "It continues."];
    case "stored": {
      const older = event.older ? ", OVER A NEWER WRITE" : event.late ? ", although its lease was over" : "";
      return [`${file}: stored what ${who} wrote with ${token}${older}`, event.older
        ? "The token is older than that of the write before. Nobody compared them, and the newer write is gone."
        : !event.late ? "No newer token has been seen for this file."
        : fenced ? "The lease had ended, but this file had seen no larger token: there was no write with a newer lease, so nothing newer is lost."
        : "The lease had ended, but there was no write with a newer lease, so nothing newer is lost. This file would have stored it anyway."];
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
        ? "The others go on: a majority is enough. (docs/assurance/protocol.md, “Words”)"
        : "A node that has forgotten may have granted a lease. It grants nothing until any such lease is over. (docs/assurance/protocol.md, “Quarantine”)"];
    }
    case "era": {
      const names = event.nodes.map((node) => node.name).join(", ");
      const before = [...new Set(event.nodes.map((node) => tail(node.before)))].join(", ");
      const go = event.nodes.length === 1 ? "goes" : "go";
      return [`${names} ${go} from era ${before} to the new era ${tail(event.era)} (in full: ${event.era})`,
        "A node that has lost its memory does not know how far it had counted. It comes back in an era above every era before, and counts from 1 there. The others follow when a lease of that era is published to them. A token of the new era is larger than all tokens of the eras before. (docs/assurance/protocol.md, “Re-admission”)"];
    }
    default:
      return [event.kind, ""];
  }
}
