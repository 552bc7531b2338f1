//! What `fencing run` leaves behind when it ends, and what it says while nodes are closed.

use crate::fleet::place::init;
use support::cli::{PATIENT, end, finish, five, run, until};
use support::process::signal;
use support::redis::{self, RedisServer};

const LOCK: &str = "{fencing}:lock:invoice/42";

fn locks(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(|server| server.cli(&["EXISTS", LOCK])).collect()
}

#[test]
fn a_failed_try_leaves_no_grant_of_a_minority_behind() {
    let mut servers = five();
    // Where it finds the lock held.
    for server in &servers[..3] {
        server.cli(&["SET", LOCK, "other-owner", "PX", "600000"]);
    }
    for _ in 0..3 {
        let held = finish(run(&servers, &format!("{PATIENT} --wait 0s"), "echo never"));
        held.prints(75, "").says(75, "invoice/42 is held by another");
        assert_eq!(locks(&servers[3..]), ["0", "0"]);
    }
    assert_eq!(servers[0].cli(&["GET", LOCK]), "other-owner");
    // Where most do not answer.
    servers.iter_mut().take(3).for_each(RedisServer::kill);
    for round in 0..2 {
        // The first attempt may be lost before the others are reached: the next ones grant.
        let down = finish(run(&servers, "--wait 3s", "echo never"));
        let down = down.prints(69, "").says(69, "no quorum for invoice/42: ");
        assert!(down.stderr.contains(&servers[0].url()), "{}", down.stderr);
        assert_eq!(locks(&servers[3..]), ["0", "0"], "round {round}");
    }
    let counted = servers[4].cli(&["HGET", "{fencing}:memory", "c:invoice/42"]);
    assert!(counted.parse::<u32>().is_ok_and(|count| count >= 2), "it has granted: {counted:?}");
}

#[test]
fn nor_does_a_wait_that_a_signal_ends() {
    let servers = five();
    // An attempt is open until their node budget has passed, and the two others hold its grants.
    servers.iter().skip(2).for_each(|server| server.signal("STOP"));
    for round in 0..2 {
        let child = run(&servers, "--wait 1m", "echo never").spawn().unwrap();
        until("its grants", || locks(&servers[..2]) == ["1", "1"]);
        signal(child.id(), "TERM");
        assert_eq!(end(child).code, Some(143));
        assert_eq!(locks(&servers[..2]), ["0", "0"], "round {round}");
    }
}

#[test]
fn whoever_waits_for_new_nodes_is_told_how_to_skip_that() {
    const SKIP: &str = "`fencing fleet recover --now` says when and how to end that";
    let servers = redis::five();
    // Whoever waits gets the lock as soon as it is skipped, and was told why it waits.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stderr");
    let mut waiting = run(&servers, "--ttl 1h --wait 10m", "echo mine");
    let waiting = waiting.stderr(std::fs::File::create(&path).unwrap()).spawn().unwrap();
    let said = || std::fs::read_to_string(&path).unwrap();
    until("it says why it waits", || said().contains(SKIP));
    for wait in ["500ms", "0s"] {
        let ended = finish(run(&servers, &format!("--ttl 1h --wait {wait}"), "echo never"));
        let ended = ended.prints(69, "").says(69, "quarantined for ");
        assert_eq!(ended.stderr.matches(SKIP).count(), 1, "{wait}: {}", ended.stderr);
    }
    init(&servers);
    end(waiting).prints(0, "mine\n");
    let said = said();
    assert!(said.starts_with("fencing: waiting: ") && said.matches(SKIP).count() == 1, "{said}");
}
