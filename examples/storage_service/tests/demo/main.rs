//! The example storage service as a process: the play, its HTTP, and the stale client.

mod browser;
mod forged;
mod http;
mod page;
mod page_picture;
mod play;
mod service;
mod shutdown;
mod simulator;
mod sleep;
mod stale;
