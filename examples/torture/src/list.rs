//! Which of the servers are the nodes at the moment, and how that changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fencing::Redlock;
use parking_lot::{Mutex, MutexGuard};

/// For how long a move is tried.
const PATIENCE: Duration = Duration::from_secs(90);

/// The current list of nodes. Clients read it from a file, each when it comes to it.
pub struct List {
    /// Of all servers, by number, with their names.
    urls: Vec<String>,
    members: Mutex<Vec<usize>>,
    /// Held while the list changes, or must not.
    turn: Mutex<()>,
    file: PathBuf,
    ttl: Duration,
}

impl List {
    /// The first five servers, or all of them.
    pub fn new(urls: &[String], ttl: Duration, folder: &Path) -> List {
        let named = |(number, url): (usize, &String)| format!("n{number}={url}");
        let urls: Vec<String> = urls.iter().enumerate().map(named).collect();
        let members = Mutex::new((0..urls.len().min(5)).collect());
        let list = List { urls, members, turn: Mutex::default(), file: folder.join("nodes"), ttl };
        list.publish();
        list
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The list stays as it is while this is held.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    pub fn members(&self) -> Vec<usize> {
        self.members.lock().clone()
    }

    fn publish(&self) {
        let urls: Vec<&str> = self.members().iter().map(|n| self.urls[*n].as_str()).collect();
        let new = self.file.with_extension("new");
        std::fs::write(&new, urls.join("\n")).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    fn service(&self, members: &[usize]) -> Redlock {
        let urls = members.iter().map(|number| &self.urls[*number]);
        let builder = Redlock::builder().redis(urls).ttl(self.ttl);
        builder.node_budget(Duration::from_millis(100)).build().unwrap()
    }

    /// Moves the fleet to another list: of three, five or seven. The mover is killed half-way now and then, and
    /// sometimes there are two of them. Why it could not be done, if so. `has_left` tells of a server whether it knows
    /// that it may join another list. To delete what it knows would not do instead: clients may have the older list
    /// still, and could start that again.
    pub fn change(&self, rng: &mut fastrand::Rng, has_left: impl Fn(usize) -> bool) -> Result<(), String> {
        let _turn = self.hold();
        let before = self.members();
        let mut after: Vec<usize> = (0..self.urls.len()).collect();
        rng.shuffle(&mut after);
        after.truncate([3, 5, 5, 7][rng.usize(0..4)].min(self.urls.len()));
        after.sort_unstable();
        if after == before {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap();
        let moved = runtime.block_on(self.mover(&before, &after, rng));
        moved.map_err(|error| format!("the fleet was not moved from {before:?} to {after:?}: {error}"))?;
        *self.members.lock() = after.clone();
        self.publish();
        let end = Instant::now() + PATIENCE;
        let gone: Vec<usize> = before.iter().copied().filter(|node| !after.contains(node)).collect();
        while !gone.iter().all(|node| has_left(*node)) {
            if Instant::now() >= end {
                return Err(format!("not all of {gone:?} know that the fleet has left {before:?}"));
            }
            let _ = runtime.block_on(self.mover(&before, &after, rng));
        }
        Ok(())
    }

    async fn mover(&self, before: &[usize], after: &[usize], rng: &mut fastrand::Rng) -> Result<(), String> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let (old, new) = (self.service(before), self.service(after));
            let (operator, other) = (old.operator(), self.service(before).operator());
            let twice = rng.bool();
            let work = async {
                if twice {
                    // The one that is behind may find everything done.
                    let (first, second) = tokio::join!(operator.move_to(&new), other.move_to(&new));
                    first.or(second)
                } else {
                    operator.move_to(&new).await
                }
            };
            let killed = match rng.u8(0..3) {
                0 => Duration::from_millis(rng.u64(0..60)),
                _ => Duration::from_secs(20),
            };
            let moved = tokio::time::timeout(killed, work).await;
            let moved = moved.map_or_else(|_| Err("no end".into()), |m| m.map_err(|e| e.to_string()));
            // Nodes are down or out of reach, or the mover was killed: run it again.
            if moved.is_ok() || Instant::now() >= patience {
                return moved;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
