//! What the scripts and sessions of Redis nodes add to the protocol, on real servers. Each test fails
//! where one rule of a script or of a session is taken out. Nothing here is timed.

mod full;
mod group;
mod lives;
mod member;
mod out;
mod sessions;
