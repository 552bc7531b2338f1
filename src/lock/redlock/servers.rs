use std::sync::{Mutex, PoisonError};

use crate::quorum::{Fault, Incarnation};

/// Which server each lane of a fleet has reached: no two lanes may speak for one.
#[derive(Default)]
pub(super) struct Servers(Mutex<Vec<Reached>>);

struct Reached {
    lane: usize,
    name: String,
    server: Incarnation,
}

impl Servers {
    /// Notes whom the lane has reached, under which name.
    ///
    /// # Errors
    /// [`Fault::SameServer`] if another lane speaks for that server already.
    pub(super) fn reached(&self, lane: usize, name: &str, at: &Incarnation) -> Result<(), Fault> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|reached| reached.lane != lane);
        if let Some(other) = servers.iter().find(|reached| reached.server == *at) {
            return Err(Fault::SameServer(other.name.clone()));
        }
        servers.push(Reached { lane, name: name.to_owned(), server: at.clone() });
        Ok(())
    }

    /// The lane has lost its session.
    pub(super) fn left(&self, lane: usize) {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|reached| reached.lane != lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_lane_until_that_one_reaches_another() {
        let (servers, here, there) =
            (Servers::default(), Incarnation::new("0a"), Incarnation::new("0b"));
        let same = |name: &str| Err(Fault::SameServer(name.into()));
        assert_eq!(servers.reached(0, "zero", &here), Ok(()));
        assert_eq!(servers.reached(0, "zero", &here), Ok(()));
        assert_eq!(servers.reached(1, "one", &here), same("zero"));
        assert_eq!(servers.reached(1, "one", &there), Ok(()));
        assert_eq!(servers.reached(0, "zero", &there), same("one"));
        // What lane 0 spoke for is nobody's now.
        assert_eq!(servers.reached(2, "two", &here), Ok(()));
        servers.left(1);
        assert_eq!(servers.reached(0, "zero", &there), Ok(()));
    }
}
