//! A server that may have forgotten marks refuses everything, until an operator opens them.

use fencing::redis::Unfit;

use super::*;

#[tokio::test]
async fn a_new_server_is_closed() {
    let server = RedisServer::start();
    let marks = marks(&server);
    assert_eq!(closed(set(&marks, 34, "x").await), Closed::NeverOpened);
    assert!(matches!(marks.raise(&file(), token(34)).await, Err(FenceError::Closed(_))));
    assert!(matches!(marks.highest(&file()).await, Err(FenceError::Closed(_))));
    assert_eq!(server.cli(&["DBSIZE"]), "0");

    let found = marks.look().await.unwrap();
    assert!(!found.is_open() && found.opened_in.is_none() && found.marks == 0, "{found:?}");
    marks.open(&found, None).await.unwrap();
    set(&marks, 34, "x").await.unwrap();
    let found = marks.look().await.unwrap();
    assert!(found.is_open() && found.marks == 1, "{found:?}");
    // Once more does no harm.
    marks.open(&found, None).await.unwrap();
    stale(set(&marks, 33, "x").await.unwrap_err());
}

#[tokio::test]
async fn a_flush_closes_them_and_a_floor_stands_in_for_what_was_lost() {
    let (server, marks) = started().await;
    for flush in ["FLUSHALL", "FLUSHDB", "UNLINK"] {
        set(&marks, 34, "new").await.unwrap();
        let arguments = [flush, MARKS];
        server.cli(if flush == "UNLINK" { &arguments } else { &arguments[..1] });
        // The stale one would find no mark.
        for number in [33, 34] {
            assert_eq!(closed(set(&marks, number, "old").await), Closed::NeverOpened, "{flush}");
        }
        assert_ne!(server.cli(&["GET", "{files}:a"]), "old");
        let found = marks.look().await.unwrap();
        marks.open(&found, Some(token(34))).await.unwrap();
        let refused = set(&marks, 33, "old").await;
        assert_eq!(stale(refused.unwrap_err()).highest, token(34));
        assert_eq!(marks.highest(&file()).await.unwrap(), Some(token(34)));
    }
    // The floor never falls, and higher marks stay.
    marks.open(&marks.look().await.unwrap(), Some(token(20))).await.unwrap();
    assert_eq!(marks.look().await.unwrap().floor, Some(token(34)));
    let other = Resource::new("files/b").unwrap();
    marks.fenced_set(&other, token(40), "{files}:b", "x").await.unwrap();
    stale(marks.fenced_set(&other, token(39), "{files}:b", "x").await.unwrap_err());
}

/// Also with all that was written: whether it is all is for the operator to know.
#[tokio::test]
async fn a_restart_closes_them() {
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let marks = opened(&server).await;
    set(&marks, 34, "new").await.unwrap();
    let before = marks.look().await.unwrap();
    server.restart();
    // The old connection is broken.
    let broken = set(&marks, 33, "old").await;
    assert!(matches!(broken, Err(FencedError::InDoubt(_))), "{broken:?}");
    assert_eq!(closed(set(&marks, 34, "again").await), Closed::OtherLife);
    assert_eq!(server.cli(&["GET", "{files}:a"]), "new");

    // What was seen before the restart opens nothing.
    assert_eq!(closed(marks.open(&before, None).await), Closed::Moved);
    let found = marks.look().await.unwrap();
    assert_eq!((found.marks, found.is_open()), (1, false));
    marks.open(&found, None).await.unwrap();
    stale(set(&marks, 33, "old").await.unwrap_err());
    set(&marks, 34, "again").await.unwrap();
}

/// The copy that it takes over lacks the newest mark, and knows its life.
#[tokio::test]
async fn a_master_that_comes_back_with_an_older_copy_is_closed() {
    for asked_by in ["a write", "a look"] {
        let [here, there] = free_ports::<2>().map(|port| port.to_string());
        // A copy begins at once.
        let at = ["--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", "--port"];
        let old = RedisServer::with(&[&at[..], &[&*here]].concat());
        let new = RedisServer::with(&[&at[..], &[&*there]].concat());
        let marks_of_old = opened(&old).await;
        set(&marks_of_old, 33, "33").await.unwrap();
        new.cli(&["REPLICAOF", "127.0.0.1", &here]);
        support::cli::until("the copy", || new.cli(&["HLEN", MARKS]) == "2");
        // It lags, and is promoted.
        new.cli(&["REPLICAOF", "NO", "ONE"]);
        set(&marks_of_old, 34, "34").await.unwrap();
        if asked_by == "a write" {
            assert_eq!(closed(set(&marks(&new), 33, "33").await), Closed::OtherLife);
        } else {
            assert!(!marks(&new).look().await.unwrap().is_open());
        }
        // Back to the old one, which runs on.
        old.cli(&["REPLICAOF", "127.0.0.1", &there]);
        support::cli::until("the way back", || old.cli(&["HGET", MARKS, "m:files/a"]) == "33");
        old.cli(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(closed(set(&marks(&old), 33, "33").await), Closed::OtherLife, "{asked_by}");
        let found = marks(&old).look().await.unwrap();
        assert_eq!(found.to_string().parse(), Ok(found.clone()));
        marks(&old).open(&found, None).await.unwrap();
        set(&marks(&old), 34, "34").await.unwrap();
    }
}

/// Its marks may be behind those of the new master, also where they are equal to the token.
#[tokio::test]
async fn a_master_that_has_become_a_replica_lets_nobody_pass() {
    let (server, marks) = started().await;
    set(&marks, 34, "x").await.unwrap();
    // Of nobody: the data stays as it is.
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(matches!(marks.raise(&file(), token(34)).await, Err(FenceError::Unreachable(_))));
    let refused = set(&marks, 34, "y").await;
    assert!(matches!(refused, Err(FencedError::Unfit(Unfit::Replica))), "{refused:?}");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    set(&marks, 34, "y").await.unwrap();
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_and_marks_that_are_evicted_are_closed() {
    let (server, connected) = started().await;
    set(&connected, 34, "new").await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random"] {
        server.cli(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let error = set(&marks(&server), 34, "x").await.unwrap_err();
        let FencedError::Unfit(Unfit::Evicts { policy: found }) = error else { panic!("{error}") };
        assert_eq!(found, policy);
    }
    // The policy may change while the connection is open. The marks stand together with their opening.
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    // It evicts at the next command.
    server.cli(&["SET", "more", "x"]);
    support::cli::until("all is evicted", || server.cli(&["EXISTS", MARKS]) == "0");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(closed(set(&connected, 33, "old").await), Closed::NeverOpened);
}
