//! A session loads its scripts once; a server that has lost them costs a vote, and no lock is left.

use crate::scripts::member::*;

fn client(servers: &[RedisServer]) -> Redlock {
    service(servers).ttl(Duration::from_secs(240)).node_budget(Duration::from_secs(60)).build().unwrap()
}

#[tokio::test]
async fn requests_carry_digests() {
    let servers = five();
    let redlock = client(&servers);
    redlock.acquire(&resource()).await.unwrap().release().await.unwrap();
    redlock.settle().await;
    let before: Vec<_> = servers.iter().map(|server| calls(server, "eval")).collect();
    for _ in 0..20 {
        let lease = redlock.acquire(&resource()).await.unwrap();
        lease.renew().await.unwrap();
        lease.release().await.unwrap();
    }
    redlock.settle().await;
    for (server, before) in servers.iter().zip(before) {
        assert_eq!(calls(server, "eval"), before);
        assert!(calls(server, "evalsha") >= 60);
    }
}

fn flush(servers: &[RedisServer]) {
    for server in servers {
        server.cli(&["SCRIPT", "FLUSH"]);
    }
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_has_them_again_for_the_next_request() {
    let servers = five();
    let redlock = client(&servers);
    let lease = redlock.acquire(&resource()).await.unwrap();
    redlock.settle().await;
    flush(&servers);
    let error = lease.renew().await.unwrap_err();
    assert!(error.to_string().contains("has lost the scripts"), "{error}");
    redlock.settle().await;
    lease.renew().await.unwrap();
    flush(&servers[..2]);
    lease.renew().await.unwrap();
    redlock.settle().await;
    // A release is sent again, with its script.
    flush(&servers);
    assert_eq!(lease.release().await, Ok(Released::Released));
    redlock.settle().await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Released));
}

/// Then each request carries its script.
#[tokio::test]
async fn a_user_who_may_not_load_scripts_gets_leases() {
    let servers = five();
    for server in &servers {
        server.cli(&["ACL", "SETUSER", "default", "-script"]);
    }
    let redlock = client(&servers);
    let lease = redlock.acquire(&resource()).await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Released));
    assert!(servers.iter().all(|server| calls(server, "evalsha") == 0));
}
