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

    pub async fn pair(&self, name: &str) {
        let folder = format!("/{}", name.replace('/', "_"));
        let folders = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(folders).unwrap();
        let prefix = LockPrefix::new_curator(&folder, "lock-").unwrap();
        let lock = self.0.lock(prefix, b"host/4242", options).await.unwrap();
        // What it does when it is dropped, awaited.
        let path = lock.lock_path().to_owned();
        mem::forget(lock);
        self.0.delete(&path, None).await.unwrap();
    }
}
