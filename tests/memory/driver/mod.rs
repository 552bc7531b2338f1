//! What the driver adds to the protocol: deadlines, queues, the watchdog and re-admission. Each test fails without one
//! rule of the driver. Over memory nodes in paused time: what is measured is the runtime's clock, and exact.

mod boottime;
mod cancelled;
mod deadline;
pub mod fleet;
mod lanes;
mod lost;
mod notified;
mod quarantine;
mod several;
mod watchdog;
mod wire;
