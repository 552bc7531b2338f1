//! Fleets on real servers: their start, their states in words, and the move to other nodes while clients hold leases.

mod crew;
mod init;
mod moves;
pub mod place;
mod states;
mod unfit;
