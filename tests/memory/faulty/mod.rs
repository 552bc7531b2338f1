//! Redlock over nodes that fail as told, in paused time: what is measured here is the
//! runtime's clock, and exact.

mod clocks;
mod hung;
mod lost;
mod queue;
mod watchdog;
