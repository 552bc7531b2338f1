//! Schedules whose every message is moved by hand: one for each rule that a schedule can show, and what once
//! broke the order of the tokens, or let two leases be valid at once, without more nodes having forgotten
//! than the promise allows. docs/assurance/reliability.md tells of each.

mod found;
mod moves;
mod rules;
mod world;
