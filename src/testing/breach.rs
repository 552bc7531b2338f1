use std::fmt::Debug;

/// A rule that an implementation must keep, and that its suite checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// All suites: requests are answered.
    #[error("every request is answered")]
    Answers,
    /// All suites: names are compared by their bytes.
    #[error("resources whose names differ in any byte are separate")]
    NamesApart,

    /// Marks: equal.
    #[error("an equal token passes")]
    EqualPasses,
    /// Marks: lower.
    #[error("a lower token is refused")]
    LowerRefused,
    /// Marks: higher, whatever the distance.
    #[error("a higher token passes")]
    HigherPasses,
    /// Marks: what a refusal says, and that it changes nothing.
    #[error("a refusal reports the highest token and leaves it as it is")]
    RefusalReports,
    /// Marks: what is read of a mark. Marks that cannot be read know of none.
    #[error("a mark is read as no higher than it is")]
    MarkRead,
    /// Marks: concurrent raises.
    #[error("once a token has passed, no raise that begins later passes with a lower one")]
    Linear,
}

/// A rule that an implementation breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("broken: {rule}; {case}: found {found}")]
#[non_exhaustive]
pub struct Breach {
    /// The rule that is broken.
    pub rule: Rule,
    /// What the suite did, and what it wanted.
    pub case: String,
    /// What it found instead.
    pub found: String,
}

impl Rule {
    pub(super) fn breach(self, case: impl Into<String>, found: &impl Debug) -> Breach {
        Breach { rule: self, case: case.into(), found: format!("{found:?}") }
    }

    pub(super) fn holds(self, holds: bool, case: impl Into<String>, found: &impl Debug) -> Result<(), Breach> {
        if holds { Ok(()) } else { Err(self.breach(case, found)) }
    }
}
