use std::mem;
use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix};

#[derive(Clone)]
pub struct Zookeeper(Client);

impl Zookeeper {
    pub async fn connect(address: &str) -> Zookeeper {
        let connector = Client::connector().with_session_timeout(Duration::from_secs(30));
        Zookeeper(connector.connect(address).await.unwrap())
    }

    /// Returns the path of the lock.
    pub async fn lock(&self, name: &str) -> String {
        let folder = format!("/{}", name.replace('/', "_"));
        let folders = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(folders).unwrap();
        let prefix = LockPrefix::new_curator(&folder, "lock-").unwrap();
        let lock = self.0.lock(prefix, b"host/4242", options).await.unwrap();
        let path = lock.lock_path().to_owned();
        mem::forget(lock);
        path
    }

    /// What a lock does when it is dropped, awaited.
    pub async fn unlock(&self, path: &str) {
        self.0.delete(path, None).await.unwrap();
    }
}
