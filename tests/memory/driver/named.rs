//! Nodes in this process keep the names of holders, as those on Redis do.

use crate::driver::fleet::*;

#[tokio::test(start_paused = true)]
async fn the_error_names_the_holder() {
    let fleet = Fleet::started().await;
    // With a seed nobody knows the time of day.
    seed(None);
    let [a, b] = ["a", "b"].map(|name| fleet.service().holder(name).build().unwrap());
    let several = ["x", "y"].map(named);
    for _ in 0..3 {
        let lease = a.acquire(&resource()).await.unwrap();
        let found = holder(b.try_acquire(&resource()).await);
        assert_eq!(found.name.as_deref(), Some("a"));
        assert!(found.since.is_some(), "{found:?}");
        lease.release().await.unwrap();
        let part = b.acquire_shared(&resource()).await.unwrap();
        assert_eq!(holder(a.try_acquire(&resource()).await).name.as_deref(), Some("b"));
        part.release().await.unwrap();
        let all = b.acquire_all(&several).await.unwrap();
        assert_eq!(holder(a.try_acquire(&several[1]).await).name.as_deref(), Some("b"));
        all.release().await.unwrap();
    }
}
