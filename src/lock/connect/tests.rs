use std::time::Duration;

use super::*;
use crate::resource::Resource;

#[tokio::test]
async fn memory_gives_leases_and_every_clone_shares_them() {
    let lock = connect("memory:").await.unwrap();
    let other = lock.with_ttl(Duration::from_secs(1)).unwrap();
    let resource = Resource::new("invoice/42").unwrap();
    let lease = lock.acquire(&resource).await.unwrap();
    assert!(other.try_acquire(&resource).await.is_err());
    lease.release().await.unwrap();
    assert!(other.try_acquire(&resource).await.is_ok());
}

#[tokio::test]
async fn what_gives_no_lock_service_says_why() {
    let error = async |url: &str| connect(url).await.unwrap_err().to_string();
    for url in ["", "etcd://a", "http://a", "a,b,c"] {
        let error = error(url).await;
        assert!(error.contains("begins with redis://, postgres://"), "{url:?}: {error}");
    }
    let short = ConnectOptions::new("memory:").ttl(Duration::from_millis(1)).connect().await;
    assert!(matches!(short, Err(ConnectError::Build(_))), "{short:?}");
}
