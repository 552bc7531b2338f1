pub use crate::database::{AcquireAnswer, Claim, Database, RenewAnswer};
