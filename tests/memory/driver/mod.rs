//! What the driver adds to the protocol: deadlines, queues, the watchdog and re-admission. Each test
//! fails where one rule of the driver is taken out. Over memory nodes in paused time: what is
//! measured here is the runtime's clock, and exact.

mod boottime;
mod cancelled;
mod closed;
mod crowd;
mod deadline;
pub mod fleet;
mod hand_over;
mod lanes;
mod lost;
mod notified;
mod owed;
mod quarantine;
mod several;
mod shared;
mod watchdog;
mod wire;
