//! What the driver adds to the protocol: deadlines, queues, the watchdog and re-admission. Each test
//! fails where one rule of the driver is taken out. Over memory nodes in paused time: what is
//! measured here is the runtime's clock, and exact.

mod at_least;
mod boottime;
mod cancelled;
mod closed;
mod crowd;
mod deadline;
mod delay;
mod first_start;
pub mod fleet;
mod hand_over;
mod hand_over_limits;
mod late;
mod lost;
mod named;
mod notified;
mod owed;
mod quarantine;
mod retry;
mod several;
mod shared;
mod stale_list;
mod together;
mod watchdog;
mod wire;
mod work;
