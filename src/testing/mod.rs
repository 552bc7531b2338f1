//! Contract suites, one for each trait, and a node that injects faults. Test your own
//! implementations with them.
//!
//! A suite returns the first [`Breach`] and does not panic. It waits by the timers of the tokio
//! runtime, for each answer 10 s at most. In paused time the implementation needs a clock that
//! follows the runtime's.
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
pub use lock::{lapse_contract, lock_contract, shared_contract};
pub use marks::marks_contract;
pub use node::node_contract;

/// How long a suite waits for one answer: ten times what is already long.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Names that a collation, a key or a field might confuse.
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

/// Makes a name of `bytes` bytes.
fn long(bytes: usize) -> String {
    "n".repeat(bytes)
}

/// Makes the resource of this name, which is a valid one.
fn resource(name: &str) -> Result<fencing_protocol::Resource, Breach> {
    fencing_protocol::Resource::new(name).map_err(|error| Rule::NamesApart.breach(name, &error))
}
