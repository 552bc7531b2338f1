//! Replace, grow, shrink and rename, under a rolling restart of clients at work, the mover
//! killed at any moment, run again, and run twice at once.

use std::time::Duration;

use crate::fleet::crew::Crew;
use crate::fleet::place::{fencing, init, lease, list, mover, named, nodes, run, servers};
use support::cli::{Ended, end, finish, line};

const CLIENTS: usize = 4;

fn moved(ended: &Ended, to: &str) {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    assert!(ended.stdout.contains("moved. "), "{}", ended.stdout);
    let give = "Give every client the new list now: ";
    let told = ended.stdout.lines().find_map(|line| line.strip_prefix(give)).unwrap();
    assert_eq!(told.split(',').count(), to.split(',').count());
}

/// Moves a fleet that is at work; `dead` is killed before.
fn scenario(from: &str, to: &str, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let crew = Crew::start(CLIENTS as u32, from);
    crew.each_has_had(2);

    // The mover dies somewhere, more than once.
    for _ in 0..5 {
        let mut child = mover(from, to).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.u64(0..60)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Then two at once do the rest.
    let both = [mover(from, to).spawn().unwrap(), mover(from, to).spawn().unwrap()];
    for child in both {
        moved(&end(child), to);
    }
    // And it may be run again when it has been done.
    moved(&finish(mover(from, to)), to);

    // Clients get the new list one by one; those who have the old one are told.
    for client in 0..CLIENTS {
        crew.is_sent_away(CLIENTS - 1);
        if client < CLIENTS - 1 {
            crew.restart(client, to);
        }
    }
    crew.is_sent_away(CLIENTS - 1);
    let late = fencing(from, &["run", "--resource", "other", "--wait", "0s", "--", "true"]);
    assert_eq!(late.code, Some(69));
    let said = nodes(to);
    said.assert_code(0, "");
    nodes(from).assert_code(69, "0 of ");
    assert!(lease(to, &["--wait", "20s"]).is_ok());
    crew.restart(CLIENTS - 1, to);
    assert!(crew.check() as usize > 3 * CLIENTS);
}

/// A move was interrupted after the seal, and the new node is gone for good: a new server takes its name.
#[test]
fn a_move_goes_on_without_a_new_node_that_is_gone() {
    let mut servers = servers(5);
    let (from, to) = (list(&servers[..3]), list(&servers[1..4]));
    init(&from);
    let before = lease(&from, &[]).unwrap();
    for server in &servers[..3] {
        let admitted = server.cli(&["HGET", "{fencing}:memory", "admitted"]);
        let mut names: Vec<&str> = to.split(',').collect();
        names.sort_unstable();
        let (key, names) = ("{fencing}:memory", names.join(","));
        server.cli(&["HSET", key, "sealed_as", &admitted, "sealed_to", &names]);
        server.cli(&["HDEL", key, "admitted"]);
    }
    servers[3].kill();
    let ended = finish(mover(&from, &to));
    let name = servers[3].url();
    let advice = format!("in --to, {name}=redis://ADDRESS in place of {name}");
    assert_eq!(ended.code, Some(69));
    assert!(ended.stderr.contains(&advice), "{}", ended.stderr);
    let stand_in = format!("{name}={}", servers[4].url());
    let to = to.replace(&name, &stand_in);
    moved(&finish(mover(&from, &to)), &to);
    nodes(&to);
    assert!(lease(&from, &["--wait", "0s"]).is_err());
    let after = lease(&to, &["--wait", "20s"]).unwrap();
    assert!(after > before, "{after} after {before}");
}

#[test]
fn one_of_three_is_replaced() {
    let servers = servers(4);
    let (from, to) = (list(&servers[..3]), list(&servers[1..]));
    init(&from);
    scenario(&from, &to, 1);
}

#[test]
fn a_dead_one_of_three_is_replaced() {
    let mut servers = servers(4);
    let (from, to) = (list(&servers[..3]), list(&servers[1..]));
    init(&from);
    servers[0].kill();
    scenario(&from, &to, 2);
}

#[test]
fn three_grow_to_five() {
    let servers = servers(5);
    let (from, to) = (list(&servers[..3]), list(&servers));
    init(&from);
    scenario(&from, &to, 3);
}

#[test]
fn five_shrink_to_three() {
    let servers = servers(5);
    let (from, to) = (list(&servers), list(&servers[..3]));
    init(&from);
    scenario(&from, &to, 4);
}

#[test]
fn all_three_are_replaced() {
    let servers = servers(6);
    let (from, to) = (list(&servers[..3]), list(&servers[3..]));
    init(&from);
    scenario(&from, &to, 5);
}

#[test]
fn the_same_servers_get_names_and_then_other_addresses() {
    let servers = servers(3);
    let (from, to) = (list(&servers), named(&servers));
    init(&from);
    scenario(&from, &to, 6);
    // Under a name of its own a node changes its address without a move.
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.sock");
    std::os::unix::fs::symlink(servers[0].socket(), &other).unwrap();
    let first = to.split(',').next().unwrap();
    let elsewhere = to.replace(first, &format!("node-0=unix://{}", other.display()));
    assert!(lease(&elsewhere, &["--wait", "20s"]).is_ok());
    nodes(&elsewhere).assert_code(0, "");
}

#[test]
fn a_lease_of_the_old_list_ends_and_the_next_has_a_larger_token() {
    let servers = servers(4);
    let (from, to) = (list(&servers[..3]), list(&servers[1..]));
    init(&from);
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!("echo $FENCING_TOKEN > {}; sleep 60", ready.display());
    let holder = run(&from, &["--ttl", "10s"], &script).spawn().unwrap();
    let token: u64 = line(&ready).parse().unwrap();
    let ended = finish(mover(&from, &to));
    moved(&ended, &to);
    assert!(ended.stdout.contains("Leases are granted in "), "{}", ended.stdout);
    let stop = format!("Leave what is left of the old list ({}) running", servers[0].url());
    assert!(ended.stdout.contains(&stop), "{}", ended.stdout);
    // Nobody gets it while it may be held.
    let early = finish(run(&to, &["--ttl", "10s", "--wait", "0s"], "echo never"));
    assert_eq!(early.code, Some(69), "{}", early.stderr);
    assert!(lease(&to, &["--ttl", "10s", "--wait", "60s"]).unwrap() > token);
    end(holder).says(76, "lease lost");
}

#[test]
fn there_and_back_again() {
    let servers = servers(4);
    let (one, two) = (list(&servers[..3]), list(&servers[1..]));
    init(&one);
    let mut last = 0;
    for (from, to) in [(&one, &two), (&two, &one), (&one, &two)] {
        let token = lease(from, &["--ttl", "500ms", "--wait", "20s"]).unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        moved(&finish(mover(from, to)), to);
        assert_eq!(lease(from, &["--wait", "0s"]).unwrap_err().code, Some(69));
    }
    assert!(lease(&two, &["--ttl", "500ms", "--wait", "20s"]).unwrap() > last);
}

#[test]
fn an_old_list_that_is_a_minority_of_the_new_one_is_warned_of() {
    let servers = servers(5);
    for (old, new, warns) in [(1, 3, true), (3, 5, false)] {
        let (old, new) = (list(&servers[..old]), list(&servers[..new]));
        if warns {
            init(&old);
        }
        let ended = finish(mover(&old, &new));
        moved(&ended, &new);
        let warned = ended.stdout.contains("The old list fits into a minority of the new one");
        assert_eq!(warned, warns, "{}", ended.stdout);
    }
}
