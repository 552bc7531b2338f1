//! Check and write are one step.

use fencing::redis::SettingsError;
use fencing::testing::marks_contract;
use tokio::time::{Instant, sleep};

use super::*;

#[tokio::test]
async fn they_keep_the_contract_of_marks() {
    let server = RedisServer::start();
    marks_contract(&opened(&server).await).await.unwrap();
}

#[tokio::test]
async fn a_stale_token_writes_nothing_in_any_of_the_three() {
    let (server, marks) = started().await;
    let (key, file) = ("{files}:a", file());
    marks.fenced_set(&file, token(34), key, "new").await.unwrap();
    assert_eq!(server.cli(&["GET", key]), "new");

    let refused = stale(marks.fenced_set(&file, token(33), key, "old").await.unwrap_err());
    assert_eq!((refused.highest, refused.presented), (token(34), token(33)));
    assert_eq!(refused.resource, file);
    stale(marks.fenced_del(&file, token(33), key).await.unwrap_err());
    stale(marks.fenced_hset(&file, token(33), "{files}:h", &[("f", "old")]).await.unwrap_err());
    assert_eq!(server.cli(&["GET", key]), "new");
    assert_eq!(server.cli(&["EXISTS", "{files}:h"]), "0");

    // Equal passes, and a newer one.
    assert!(marks.fenced_del(&file, token(34), key).await.unwrap());
    assert!(!marks.fenced_del(&file, token(34), key).await.unwrap());
    let fields = [("f", "1"), ("g", "2")];
    assert_eq!(marks.fenced_hset(&file, token(35), "{files}:h", &fields).await.unwrap(), 2);
    assert_eq!(marks.fenced_hset(&file, token(35), "{files}:h", &fields).await.unwrap(), 0);
    assert_eq!(server.cli(&["HGET", "{files}:h", "g"]), "2");
    assert_eq!(marks.highest(&file).await.unwrap(), Some(token(35)));

    // Another resource has a mark of its own.
    let other = Resource::new("files/b").unwrap();
    marks.fenced_set(&other, token(1), "{files}:b", [0, 255]).await.unwrap();
}

#[tokio::test]
async fn two_clients_never_leave_the_older_ones_value() {
    let server = RedisServer::start();
    let (one, two) = (opened(&server).await, marks(&server));
    for round in 0..300 {
        let file = Resource::new(format!("files/{round}")).unwrap();
        let key = format!("{{files}}:{round}");
        let (old, new) =
            tokio::join!(one.fenced_set(&file, token(33), &key, "old"), two.fenced_set(&file, token(34), &key, "new"),);
        new.unwrap();
        old.map_or_else(|error| drop(stale(error)), drop);
        assert_eq!(server.cli(&["GET", &key]), "new", "round {round}");
    }
}

/// A client that gives up while the server sleeps is in doubt. What the server does when it wakes is fenced.
#[tokio::test]
async fn a_write_that_was_given_up_does_not_land_behind_a_newer_one() {
    let server = RedisServer::start();
    let patient = opened(&server).await;
    let (hasty, behind) = (patient.clone().budget(Duration::from_millis(200)), patient.clone());
    set(&patient, 32, "first").await.unwrap();
    server.signal("STOP");
    let given_up = set(&hasty, 33, "old").await;
    assert!(matches!(given_up, Err(FencedError::InDoubt(_))), "{given_up:?}");
    let newer = tokio::spawn(async move { set(&patient, 34, "new").await });
    server.signal("CONT");
    newer.await.unwrap().unwrap();
    assert_eq!(server.cli(&["GET", "{files}:a"]), "new");
    stale(set(&behind, 33, "old").await.unwrap_err());
}

#[tokio::test]
async fn another_type_at_the_key_is_named_and_moves_no_mark() {
    let (server, marks) = started().await;
    server.cli(&["SET", "{files}:a", "text"]);
    let error = marks.fenced_hset(&file(), token(34), "{files}:a", &[("f", "v")]).await.unwrap_err();
    let FencedError::WrongType { found } = error else { panic!("{error}") };
    assert_eq!(found, "string");
    assert_eq!(marks.highest(&file()).await.unwrap(), None);
    set(&marks, 33, "33").await.unwrap();
    // SET and DEL take any type.
    server.cli(&["DEL", "{files}:a"]);
    server.cli(&["RPUSH", "{files}:a", "x"]);
    set(&marks, 34, "34").await.unwrap();
    assert_eq!(server.cli(&["GET", "{files}:a"]), "34");
}

#[tokio::test]
async fn a_mark_that_is_no_token_admits_nobody() {
    let (server, marks) = started().await;
    for bad in ["abc", "", "0", "007", "1e3", "-5", "9999999999999999", "34 "] {
        server.cli(&["HSET", MARKS, "m:files/a", bad]);
        let refused = marks.fenced_set(&file(), Token::MAX, "{files}:a", "x").await;
        assert!(matches!(refused, Err(FencedError::Corrupt { .. })), "{bad:?}: {refused:?}");
        assert_eq!(server.cli(&["EXISTS", "{files}:a"]), "0");
    }
    server.cli(&["HSET", MARKS, "m:files/a", "33"]);
    server.cli(&["HSET", MARKS, "floor", "1e3"]);
    let refused = marks.fenced_set(&file(), Token::MAX, "{files}:a", "x").await;
    for refused in [refused.unwrap_err(), marks.look().await.unwrap_err()] {
        assert!(matches!(refused, FencedError::CorruptFloor { .. }), "{refused:?}");
    }
    // It counts for resources without a mark.
    assert_eq!(marks.highest(&file()).await.unwrap(), Some(token(33)));
    let refused = marks.highest(&Resource::new("files/b").unwrap()).await.unwrap_err();
    assert!(refused.to_string().contains("the floor of the marks"), "{refused}");
    server.cli(&["DEL", MARKS]);
    server.cli(&["SET", MARKS, "text"]);
    let refused = marks.fenced_set(&file(), Token::MAX, "{files}:a", "x").await;
    assert!(matches!(refused, Err(FencedError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_server_without_memory_left_writes_nothing() {
    let (server, marks) = started().await;
    set(&marks, 33, "old").await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for number in [33, 34] {
        let refused = set(&marks, number, "new").await;
        assert!(matches!(refused, Err(FencedError::Refused(_))), "{refused:?}");
        assert_eq!(server.cli(&["GET", "{files}:a"]), "old");
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    set(&marks, 34, "new").await.unwrap();
}

#[tokio::test]
async fn a_server_that_has_lost_the_script_is_given_it_again() {
    let (server, marks) = started().await;
    for number in 33..36 {
        set(&marks, number, "x").await.unwrap();
        server.cli(&["SCRIPT", "FLUSH", "SYNC"]);
    }
    assert_eq!(marks.highest(&file()).await.unwrap(), Some(token(35)));
}

/// It would wait for another one, which opens the next connection.
#[tokio::test]
async fn a_call_that_has_failed_keeps_to_its_budget() {
    let (server, _) = started().await;
    let budget = Duration::from_secs(10);
    let marks = RedisMarks::new(&server.url(), "files").unwrap().budget(budget);
    set(&marks, 34, "x").await.unwrap();
    server.signal("STOP");
    tokio::time::pause();
    let call = async |after: f32| {
        sleep(budget.mul_f32(after)).await;
        let since = Instant::now();
        set(&marks, 34, "y").await.unwrap_err();
        since.elapsed()
    };
    // The first one breaks the connection, the third one opens another, and the second one fails meanwhile.
    let (_, second, _) = tokio::join!(call(0.0), call(0.5), call(1.2));
    server.signal("CONT");
    assert!(second < budget.mul_f32(1.1), "{second:?}");
}

#[tokio::test]
async fn a_user_needs_no_more_rights_than_are_listed() {
    let server = RedisServer::start();
    let rights = "+eval +evalsha +info +hmget +hset +hlen +hscan +type +set +del";
    let mut rule = vec!["ACL", "SETUSER", "writer", "on", ">secret", "~{files}:*"];
    rule.extend(rights.split(' '));
    assert_eq!(server.cli(&rule), "OK");
    let url = format!("{}?user=writer&pass=secret", server.url());
    let marks = RedisMarks::new(&url, "files").unwrap().budget(Duration::from_secs(30));
    marks.open(&marks.look().await.unwrap(), Some(token(30))).await.unwrap();
    set(&marks, 34, "x").await.unwrap();
    assert!(marks.fenced_del(&file(), token(34), "{files}:a").await.unwrap());
    marks.fenced_hset(&file(), token(34), "{files}:h", &[("f", "v")]).await.unwrap();
    marks.raise(&file(), token(35)).await.unwrap();
    assert_eq!(marks.highest(&file()).await.unwrap(), Some(token(35)));
    assert_eq!(marks.list(None, 10).await.unwrap(), [(file(), token(35))]);
    let refused = marks.fenced_set(&file(), token(36), "elsewhere", "x").await;
    assert!(matches!(refused, Err(FencedError::Refused(_))), "{refused:?}");
}

/// In a cluster, one slot has the marks of a namespace and what they fence.
#[tokio::test]
async fn a_key_in_another_slot_is_refused() {
    let [own, bus] = free_ports::<2>().map(|port| port.to_string());
    let settings = ["--port", &own, "--cluster-enabled", "yes", "--cluster-port", &bus];
    let server = RedisServer::with(&settings);
    server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    support::cli::until("the cluster serves", || server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    let marks = opened(&server).await;
    let refused = marks.fenced_set(&file(), token(34), "elsewhere", "x").await;
    assert!(matches!(refused, Err(FencedError::OtherSlot(_))), "{refused:?}");
    assert_eq!(marks.highest(&file()).await.unwrap(), None);
    set(&marks, 34, "x").await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_meant_is_not_sent() {
    let (_server, marks) = started().await;
    let own = marks.fenced_del(&file(), token(34), MARKS).await;
    assert!(matches!(own, Err(FencedError::OwnKey)), "{own:?}");
    for key in ["{other}:marks", "{files}:memory"] {
        let own = marks.fenced_set(&file(), token(34), key, "x").await;
        assert!(matches!(own, Err(FencedError::OwnKey)), "{key}: {own:?}");
    }
    let none: [(&str, &str); 0] = [];
    let many = vec![("f", "v"); 1001];
    for fields in [&none[..], &many] {
        let wrong = marks.fenced_hset(&file(), token(34), "{files}:a", fields).await;
        assert!(matches!(wrong, Err(FencedError::WrongCount { most: 1000, .. })), "{wrong:?}");
    }
    let whole: Vec<_> = (0..1000).map(|number| (number.to_string(), "v")).collect();
    assert_eq!(marks.fenced_hset(&file(), token(34), "{files}:a", &whole).await.unwrap(), 1000);

    for namespace in ["", "a{b", "a}b", "a\n", &"x".repeat(65)] {
        let refused = RedisMarks::new("redis://h", namespace).unwrap_err();
        assert_eq!(refused, SettingsError::Namespace);
    }
    let refused = RedisMarks::new("http://me:s3cret@h", "files").unwrap_err();
    assert_eq!(refused, SettingsError::Url);
    assert!(!refused.to_string().contains("s3"));
}
