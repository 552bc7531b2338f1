//! The protocol in `protocol`, without a server and without a runtime: every state of small
//! worlds, random walks over larger ones, the proof for any number of nodes, and the checker of
//! histories. The model's worlds are a library: the simulator of `examples/storage_service` plays them.

#[cfg(test)]
mod directed;
#[cfg(test)]
mod history;
pub mod machine;
pub mod model;
#[cfg(test)]
mod product;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod walk;
