//! The contract suite of [`Marks`](crate::fence::Marks), which you can implement, and a node that
//! injects faults, to test your use of leases.
//!
//! The suite returns the first [`Breach`] and does not panic. It waits by the timers of the tokio runtime, for each
//! answer 10 s at most. In paused time the implementation needs a clock that follows the runtime's.
//!
//! ```
//! use fencing::fence::MemoryMarks;
//! use fencing::testing::{Breach, marks_contract};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Breach> {
//! marks_contract(&MemoryMarks::default()).await
//! # }
//! ```

mod breach;
mod faults;
mod faulty;
mod marks;

pub use crate::random::seed;
pub use breach::{Breach, Rule};
pub use faults::Faults;
pub use faulty::FaultyNode;
pub use marks::marks_contract;
