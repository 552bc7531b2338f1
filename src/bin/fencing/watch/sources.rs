//! Who is asked: each by a task of its own, one question at a time.

use std::time::Duration;

use fencing::Resource;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::told::{Leases, Nodes, Told};
use crate::findings;
use crate::glob::Glob;
use crate::leases::in_pool;
use crate::pool::{self, Failure, Pool};
use crate::standing::Fleet;
use crate::{exit, say};

/// How long a database may take.
pub(super) const DATABASE: Duration = Duration::from_secs(10);
/// How many times its budget a node may take to list its locks.
const LIST: u32 = 10;

/// One who can be asked.
pub(super) trait Source: Send + 'static {
    /// Asks once. It always ends, within a bound of its own.
    fn ask(&mut self) -> impl Future<Output = Told> + Send;
}

/// What the tasks hear.
#[derive(Clone)]
pub(super) struct Wishes {
    pub(super) every: Duration,
    pub(super) paused: watch::Receiver<bool>,
    pub(super) told: mpsc::Sender<Told>,
}

impl Wishes {
    /// Asks from now on, until nobody listens any more. It asks again when the last answer has come, so two
    /// questions never overlap.
    pub(super) fn ask(&self, mut source: impl Source) {
        let Wishes { every, mut paused, told } = self.clone();
        tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if paused.wait_for(|paused| !*paused).await.is_err() {
                    return;
                }
                if told.send(source.ask().await).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The nodes of a list.
#[derive(Clone)]
pub(super) struct OnNodes {
    pub(super) urls: Vec<String>,
    pub(super) namespace: String,
    pub(super) budget: Duration,
}

impl OnNodes {
    fn urls(&self) -> Vec<&str> {
        self.urls.iter().map(String::as_str).collect()
    }
}

impl Source for OnNodes {
    async fn ask(&mut self) -> Told {
        let asked = findings::ask(self.urls().into_iter(), &self.namespace, self.budget).await;
        asked
            .map_or_else(|error| Told::Wrong(error.to_string()), |it| Told::Nodes(Nodes::from(&it)))
    }
}

/// Their locks.
pub(super) struct LocksOnNodes {
    pub(super) nodes: OnNodes,
    pub(super) form: Glob,
}

impl Source for LocksOnNodes {
    async fn ask(&mut self) -> Told {
        let OnNodes { namespace, budget, .. } = &self.nodes;
        let mut fleet = match Fleet::of(&self.nodes.urls(), namespace, *budget).await {
            Ok(fleet) => fleet,
            Err(error) => return Told::Wrong(error),
        };
        let all = fleet.locks(&self.form, *budget, budget.saturating_mul(LIST)).await;
        let fault =
            |(node, fault): &(String, fencing::lock::Fault)| (node.clone(), fault.to_string());
        Told::Leases(Ok(Leases {
            all: all.into_iter().map(From::from).collect(),
            nodes: Some((fleet.nodes.len(), fleet.needed, fleet.size)),
            faults: fleet.faults.iter().map(fault).collect(),
        }))
    }
}

/// The leases in a database.
pub(super) struct InDatabase {
    pub(super) database: Database,
    pub(super) form: Glob,
}

impl Source for InDatabase {
    async fn ask(&mut self) -> Told {
        let form = &self.form;
        let asked = self
            .database
            .ask(async |pool| in_pool(pool, form).await.map_err(|fault| fault.to_string()));
        match asked.await {
            Err(Failure(exit::USAGE, text)) => Told::Wrong(text),
            Err(Failure(_, text)) => Told::Leases(Err(text)),
            Ok(all) => {
                let all = all.into_iter().map(From::from).collect();
                Told::Leases(Ok(Leases { all, nodes: None, faults: Vec::new() }))
            }
        }
    }
}

/// A database, connected to when it is asked.
pub(super) struct Database {
    url: String,
    pool: Option<Pool>,
}

impl Database {
    pub(super) fn new(url: &str) -> Database {
        Database { url: url.to_owned(), pool: None }
    }

    /// Asks it. After a failure the next question takes a new connection.
    pub(super) async fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Pool) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let kept = self.pool.take();
        let asked = async {
            let pool = match kept {
                Some(pool) => pool,
                None => pool::connect(&self.url, false, 1).await?,
            };
            let answer = question(&pool).await;
            Ok((answer.map_err(|text| Failure(exit::UNAVAILABLE, text))?, pool))
        };
        let late = |_| Failure(exit::UNAVAILABLE, format!("no answer within {DATABASE:?}"));
        let asked: Result<(T, Pool), Failure> = timeout(DATABASE, asked).await.map_err(late)?;
        let (answer, pool) = asked
            .map_err(|Failure(status, text)| Failure(status, say::without_passwords(&text)))?;
        self.pool = Some(pool);
        Ok(answer)
    }
}

/// The resources that stand on the screen.
pub(super) type OnScreen = watch::Receiver<Vec<Resource>>;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::{Instant, sleep};

    use super::*;

    /// It takes long to answer, and counts its questions.
    struct Slow {
        asked: Arc<AtomicUsize>,
        at_once: Arc<AtomicUsize>,
    }

    impl Source for Slow {
        async fn ask(&mut self) -> Told {
            self.asked.fetch_add(1, Ordering::SeqCst);
            assert_eq!(self.at_once.fetch_add(1, Ordering::SeqCst), 0);
            sleep(Duration::from_secs(7)).await;
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            Told::Marks(Err(String::new()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_one_is_asked_one_question_at_a_time_and_none_in_a_pause() {
        let (pause, paused) = watch::channel(false);
        let (told, mut hears) = mpsc::channel(16);
        let asked = Arc::<AtomicUsize>::default();
        let wishes = Wishes { every: Duration::from_secs(2), paused, told };
        wishes.ask(Slow { asked: Arc::clone(&asked), at_once: Arc::default() });
        let began = Instant::now();
        for _ in 0..3 {
            assert!(hears.recv().await.is_some());
        }
        assert!(began.elapsed() >= Duration::from_secs(21));
        // The one under way may end.
        pause.send_replace(true);
        let before = asked.load(Ordering::SeqCst);
        sleep(Duration::from_secs(60)).await;
        assert!(asked.load(Ordering::SeqCst) <= before + 1);
        let before = asked.load(Ordering::SeqCst);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(asked.load(Ordering::SeqCst), before);
        pause.send_replace(false);
        while asked.load(Ordering::SeqCst) == before {
            assert!(hears.recv().await.is_some());
        }
        // Nobody listens any more: it ends, and holds no end of the channel.
        drop((hears, wishes));
    }
}
