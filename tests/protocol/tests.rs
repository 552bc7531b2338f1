//! the protocol in `src/protocol`, without a server and without a runtime: every state of small
//! worlds, random walks over larger ones, the proof for any number of nodes, and the checker of
//! histories.

mod history;
mod model;
mod product;
mod proof;
mod several;
mod walk;
