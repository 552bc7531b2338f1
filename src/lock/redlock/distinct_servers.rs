use std::time::Duration;

use fencing_protocol::{Fault, Incarnation};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Keeps note of the server that each lane has reached: one server must not vote through two lanes.
pub(super) struct DistinctServers {
    reached: Mutex<Vec<Reached>>,
    /// Time for which a lane that has lost its session still counts for its server. It is longer
    /// than an attempt, or both lanes would vote in one.
    pause: Duration,
}

struct Reached {
    lane: usize,
    name: String,
    server: Incarnation,
    lost: Option<Instant>,
}

impl DistinctServers {
    pub(super) fn new(pause: Duration) -> DistinctServers {
        DistinctServers { reached: Mutex::default(), pause }
    }

    /// Notes the server that the lane has reached, and the lane's name.
    ///
    /// # Errors
    /// [`Fault::SameServer`] if another lane counts for that server already.
    pub(super) fn reached(&self, lane: usize, name: &str, at: &Incarnation) -> Result<(), Fault> {
        let mut all = self.reached.lock();
        let over = |lost: Instant| lost.elapsed() >= self.pause;
        all.retain(|reached| reached.lane != lane && !reached.lost.is_some_and(over));
        if let Some(other) = all.iter().find(|reached| reached.server == *at) {
            return Err(Fault::SameServer(other.name.clone()));
        }
        all.push(Reached { lane, name: name.to_owned(), server: at.clone(), lost: None });
        Ok(())
    }

    /// Notes that the lane has lost its session.
    pub(super) fn lost(&self, lane: usize) {
        let mut all = self.reached.lock();
        for reached in all.iter_mut().filter(|reached| reached.lane == lane) {
            reached.lost.get_or_insert_with(Instant::now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_server_has_one_lane_until_that_one_reaches_another() {
        let (distinct_servers, here, there) =
            (DistinctServers::new(PAUSE), Incarnation::new("0a"), Incarnation::new("0b"));
        let same = |name: &str| Err(Fault::SameServer(name.into()));
        assert_eq!(distinct_servers.reached(0, "zero", &here), Ok(()));
        assert_eq!(distinct_servers.reached(0, "zero", &here), Ok(()));
        assert_eq!(distinct_servers.reached(1, "one", &here), same("zero"));
        assert_eq!(distinct_servers.reached(1, "one", &there), Ok(()));
        assert_eq!(distinct_servers.reached(0, "zero", &there), same("one"));
        // The first server of lane 0 is free now.
        assert_eq!(distinct_servers.reached(2, "two", &here), Ok(()));
        distinct_servers.lost(1);
        assert_eq!(distinct_servers.reached(0, "zero", &there), same("one"));
        tokio::time::advance(PAUSE / 2).await;
        // It is counted from the first loss.
        distinct_servers.lost(1);
        tokio::time::advance(PAUSE / 2).await;
        assert_eq!(distinct_servers.reached(0, "zero", &there), Ok(()));
        assert_eq!(distinct_servers.reached(1, "one", &there), same("zero"));
    }
}
