use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::CreateMode;

use super::paths::WAITS;
use super::session::ZookeeperSession;

impl ZookeeperSession {
    /// Keeps others from joining the shared lock until then.
    pub(super) fn drain(self: &Arc<Self>, folder: String, until: Instant) {
        let mut drains = self.drains.lock();
        if let Some(drain) = drains.get(&folder) {
            drain.send_replace(until);
            return;
        }
        let (drain, ends) = watch::channel(until);
        drains.insert(folder.clone(), drain);
        drop(drains);
        self.runtime.spawn(Arc::clone(self).keep_closed(folder, ends));
    }

    /// Ends it: the lock is acquired.
    pub(super) fn end_drain(&self, folder: &str) {
        if let Some(drain) = self.drains.lock().get(folder) {
            drain.send_replace(Instant::now());
        }
    }

    async fn keep_closed(self: Arc<Self>, folder: String, mut ends: watch::Receiver<Instant>) {
        let path = format!("{folder}/{WAITS}");
        loop {
            let until = *ends.borrow_and_update();
            if until > Instant::now() {
                let ephemeral = CreateMode::Ephemeral.with_acls(self.acls);
                // Another client may keep it closed already.
                let _ = self.client.create(&path, b"", &ephemeral).await;
                let _ = timeout_at(until, ends.changed()).await;
                continue;
            }
            self.open_again(&path).await;
            let mut drains = self.drains.lock();
            if *ends.borrow() <= Instant::now() {
                drains.remove(&folder);
                return;
            }
        }
    }

    async fn open_again(&self, path: &str) {
        let remove = || async {
            let (synced, found) = (self.client.sync(path), self.client.check_stat(path));
            synced.await?;
            match found.await? {
                Some(stat) if stat.ephemeral_owner == self.client.session_id().0 => {
                    self.client.delete(path, None).await
                }
                _ => Ok(()),
            }
        };
        self.until_known(remove).await;
    }
}
