//! The example storage service as a process: the play, its HTTP, and the stale client.

mod browser;
mod forged;
mod http;
mod objects;
mod page;
mod play;
mod service;
mod simulator;
mod stale;
