//! Contract suites, one per trait, and a node that injects faults: for tests, of this
//! crate and of implementations elsewhere.
//!
//! A suite answers with the first [`Breach`] instead of panicking. It waits by the
//! runtime's timers, and for an answer 10 s at most. In paused time the implementation must be on
//! a clock that follows the runtime's.
//!
//! ```
//! use fencing::fence::MemoryMarks;
//! use fencing::testing::{Breach, marks_contract};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Breach> {
//!     marks_contract(&MemoryMarks::default()).await
//! }
//! ```

mod breach;
mod faults;
mod faulty;
mod lock;
mod marks;
mod node;

pub use crate::random::seed;
pub use breach::{Breach, Rule};
pub use faults::Faults;
pub use faulty::FaultyNode;
pub use lock::{lapse_contract, lock_contract};
pub use marks::marks_contract;
pub use node::node_contract;

/// A tenth of this is long for one that answers.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Names that a collation, a key or a field might take for one another.
const NAMES: [&str; 14] = [
    "R",
    "r",
    "r.",
    "r/",
    "r\u{301}",
    "\u{155}",
    "r\u{200b}",
    "r r",
    "r  r",
    "r%",
    "{r}",
    "era",
    "admitted",
    "nonce",
];

/// A name of `bytes` bytes.
fn long(bytes: usize) -> String {
    "n".repeat(bytes)
}

/// The resource of this name, which follows the rule.
fn resource(name: &str) -> Result<crate::resource::Resource, Breach> {
    crate::resource::Resource::new(name).map_err(|error| Rule::NamesApart.breach(name, &error))
}
