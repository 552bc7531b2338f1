use std::sync::Arc;

/// A fleet: the names of the nodes of one list, sorted.
///
/// The order of the tokens needs one list, because majorities of different lists need not meet.
/// So a node remembers the fleet that it was admitted in, and gives clients of another no vote.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fleet(Arc<str>);

/// The reason why names are not a fleet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// There are no names, or too many.
    #[error("there must be 1 to {most} nodes", most = Fleet::MAX_NODES)]
    Number,
    /// The list has this name twice.
    #[error("{0} is given twice")]
    Twice(String),
    /// This name is empty, too long, or has a comma or a control character.
    #[error(
        "{0:?} can't name a node: 1 to {most} bytes, no comma, no control character; \
         a node can be given a name in front of its URL, as in a=redis://host:6379",
        most = Fleet::MAX_NAME_BYTES
    )]
    Name(String),
}

impl Fleet {
    /// The largest number of nodes in a fleet.
    pub const MAX_NODES: usize = 99;
    /// The longest name of a node, in bytes.
    pub const MAX_NAME_BYTES: usize = 255;

    /// Makes the fleet of these nodes. The order of the names does not matter.
    ///
    /// # Errors
    /// Returns a [`FleetError`] for no name, too many, one that is not valid, or one given twice.
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Result<Fleet, FleetError> {
        let mut sorted: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        sorted.sort_unstable();
        if sorted.is_empty() || sorted.len() > Fleet::MAX_NODES {
            return Err(FleetError::Number);
        }
        let unfit = |name: &&String| {
            name.is_empty() || name.len() > Fleet::MAX_NAME_BYTES || name.contains(|c: char| c == ',' || c.is_control())
        };
        if let Some(name) = sorted.iter().find(unfit) {
            return Err(FleetError::Name(name.clone()));
        }
        match sorted.windows(2).find(|pair| pair.first() == pair.last()) {
            Some([twice, _]) => Err(FleetError::Twice(twice.clone())),
            _ => Ok(Fleet(sorted.join(",").into())),
        }
    }

    /// Reads what [`as_str`](Fleet::as_str) writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Fleet> {
        let fleet = Fleet::new(text.split(',')).ok()?;
        (fleet.as_str() == text).then_some(fleet)
    }

    /// Returns the sorted names, joined by commas.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns how many of its nodes are a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        super::majority(self.members().count())
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.members().map(str::to_owned).collect()
    }

    /// Returns the names, sorted.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.0.split(',')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_names_does_not_matter() {
        let fleet = Fleet::new(["b", "a", "c"]).unwrap();
        assert_eq!(fleet, Fleet::new(["c", "b", "a"]).unwrap());
        assert_eq!(fleet.as_str(), "a,b,c");
        assert_eq!(fleet.members().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(Fleet::parse("a,b,c"), Some(fleet));
        assert_eq!(Fleet::parse("b,a"), None);
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(Fleet::new([""; 0]), Err(FleetError::Number));
        assert_eq!(Fleet::new((0..100).map(|n| n.to_string())), Err(FleetError::Number));
        assert_eq!(Fleet::new(["a", "b", "a"]), Err(FleetError::Twice("a".into())));
        for name in ["", "a,b", "a\n", &"n".repeat(256)] {
            assert_eq!(Fleet::new([name]), Err(FleetError::Name(name.into())), "{name:?}");
        }
    }
}
