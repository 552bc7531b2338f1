//! Every token that was returned, and the promise of order.

use std::collections::{BTreeMap, BTreeSet};

use fencing_protocol::{Resource, Token};

#[derive(Default)]
pub struct Ledger {
    returned: BTreeMap<Resource, BTreeSet<Token>>,
}

impl Ledger {
    /// The largest token of the resource that has been returned to anybody.
    pub fn highest(&self, resource: &Resource) -> Option<Token> {
        self.returned.get(resource)?.last().copied()
    }

    /// Writes a token down. `floor`: the largest one when its attempt began.
    ///
    /// # Errors
    /// What was broken: I1, no token twice; I2, larger than what was returned before.
    pub fn write(
        &mut self,
        resource: &Resource,
        token: Token,
        floor: Option<Token>,
    ) -> Result<(), String> {
        if floor.is_some_and(|floor| token <= floor) {
            return Err(format!("I2: {token} of {resource} began after {floor:?} was returned"));
        }
        if !self.returned.entry(resource.clone()).or_default().insert(token) {
            return Err(format!("I1: {token} of {resource} was returned twice"));
        }
        Ok(())
    }
}
