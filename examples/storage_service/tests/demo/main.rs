//! The example storage service as a process: the play, its HTTP, and the stale client.

mod forged;
mod http;
mod play;
mod service;
mod shutdown;
mod stale;
