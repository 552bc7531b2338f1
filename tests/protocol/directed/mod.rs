//! Schedules whose every message is moved by hand: one for each rule that a schedule can show, and those that
//! once broke the order of the tokens, or made two leases valid at once, although no more nodes had forgotten their
//! state than the guarantee permits. docs/assurance/reliability.md describes each.

mod found;
mod moves;
mod rules;
mod world;
