//! Kleppmann's scenario: a client is paused past its TTL, another comes, the first wakes.

use support::cli::{end, finish, five, line, run, until};
use support::process::{children_of, runs, signal};

#[test]
fn a_client_that_slept_past_its_ttl_sees_its_lease_as_lost() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    // Its command has a child, to show that the whole group is told.
    let script = format!(
        "sh -c 'sleep 60; :' & trap 'echo told; exit 0' TERM; \
         echo $FENCING_TOKEN $$ $! > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let first = run(&servers, &["--ttl", "6s"], &script).spawn().unwrap();
    let words = line(&ready);
    let words: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    let [token, command, grandchild] = words[..] else { panic!("{words:?}") };
    signal(first.id(), "STOP");

    // The second waits for the end of the TTL, and gets a larger token.
    let second = finish(run(&servers, &["--wait", "60s"], "echo $FENCING_TOKEN"));
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    let larger: u64 = second.stdout.trim().parse().unwrap();
    assert!(larger > token, "{larger} after {token}");
    until("the end of the command", || !runs(u32::try_from(command).unwrap()));

    signal(first.id(), "CONT");
    let ended = end(first);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(76), "told\n"), "{}", ended.stderr);
    let words = format!("lease lost, invoice/42 token {token}: ");
    assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    until("the end of the group", || !runs(u32::try_from(grandchild).unwrap()));
}

#[test]
fn the_guard_may_sleep_as_well() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script =
        format!("echo $FENCING_TOKEN $$ > {}; while :; do sleep 0.05; done", ready.display());
    let first = run(&servers, &["--ttl", "10s"], &script).spawn().unwrap();
    let words = line(&ready);
    let (token, command) = words.split_once(' ').unwrap();
    let (token, command): (u64, u32) = (token.parse().unwrap(), command.parse().unwrap());
    let guard = children_of(first.id());
    // The guard first: it would end the command with the lease.
    let everything = || guard.iter().copied().chain([first.id(), command]);
    everything().for_each(|process| signal(process, "STOP"));
    let second = finish(run(&servers, &["--wait", "60s"], "echo $FENCING_TOKEN"));
    assert!(second.stdout.trim().parse::<u64>().unwrap() > token, "{}", second.stderr);
    // The first's command is still there: if it woke up now, only the storage could refuse it.
    assert!(runs(command));
    everything().filter(|process| *process != command).for_each(|process| signal(process, "CONT"));
    let ended = end(first);
    assert_eq!(ended.code, Some(76), "{}", ended.stderr);
    assert!(!runs(command));
}
