use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencing::Sequencer;
use fencing::lock::Lock;

use crate::app::App;
use crate::args::Place;

/// How often nodes are asked before it is given up, and the pause in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The newest era that nodes were seen in. An era is the high nine digits of a token.
#[derive(Default)]
pub struct NewestEra(AtomicU64);

impl NewestEra {
    /// Reports whether nodes may have issued a token of this era. It asks them only about an era
    /// newer than all that it has seen.
    async fn covers(&self, era: u64, lock: &dyn Lock) -> Result<bool, Box<dyn Error + Send + Sync>> {
        for _ in 0..TRIES {
            if era <= self.0.load(Ordering::SeqCst) {
                return Ok(true);
            }
            let health = lock.health().await;
            let newest = health.nodes.iter().map(|node| node.era).max().unwrap_or(0);
            self.0.fetch_max(newest, Ordering::SeqCst);
            // A majority has a node that every token was issued by.
            if health.has_quorum() {
                return Ok(era <= self.0.load(Ordering::SeqCst));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err("too few nodes answer".into())
    }
}

/// Reports whether a client may have this token from a lease, through this service or directly.
///
/// A database knows the newest lease of each resource. Nodes tell their eras only: a token of an era
/// to come is refused, and a forged one of the newest era passes.
pub async fn was_issued(app: &App, shown: Sequencer) -> Result<bool, Box<dyn Error + Send + Sync>> {
    match app.place {
        Place::Database => Ok(Some(shown.token) <= app.store.newest_lease(&shown.resource).await?),
        Place::Nodes => app.era.covers(shown.token.get() / 1_000_000, &*app.lock).await,
        Place::Elsewhere => Ok(true),
    }
}
