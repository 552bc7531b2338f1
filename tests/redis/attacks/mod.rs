//! What once broke the order of the tokens, or let two leases be valid at once, without more
//! nodes having forgotten than the promise allows: docs/reliability.md tells of each.

mod lists;
mod restarts;
