//! A lost lease stops the command. Kleppmann's scenario: a client is paused past its TTL, another comes, the first
//! wakes.

use std::time::Duration;

use support::cli::*;

#[test]
fn a_command_that_ends_while_fencing_is_paused_past_its_ttl_is_no_success() {
    let servers = five();
    let job = Job::start(&servers, "--ttl 12s", "", "$$");
    let [command] = job.processes();
    job.signal("STOP");
    std::thread::sleep(Duration::from_secs(13));
    job.let_go();
    until("the end of the command", || !runs(command));
    job.signal("CONT");
    job.ended().says(76, "lease lost, invoice/42 token ");
}

#[test]
fn a_client_that_slept_past_its_ttl_sees_its_lease_as_lost() {
    let servers = five();
    // Its command has a child, to show that the whole group is told.
    let first = "sh -c 'sleep 60; :' & trap 'echo told; exit 0' TERM";
    let job = Job::start(&servers, "--ttl 20s", first, "$$ $!");
    let [command, grandchild] = job.processes();
    job.signal("STOP");

    // The second waits for the end of the TTL, and gets a larger token.
    let second = finish(run(&servers, "--wait 60s", "echo $FENCING_TOKEN"));
    assert!(second.number() > job.token);
    until("the end of the command", || !runs(command));

    job.signal("CONT");
    let words = format!("lease lost, invoice/42 token {}: ", job.token);
    job.ended().prints(76, "told\n").says(76, &words);
    until("the end of the group", || !runs(grandchild));
}

#[test]
fn the_guard_may_sleep_as_well() {
    let servers = five();
    let job = Job::start(&servers, "--ttl 10s", "", "$$");
    let [command] = job.processes();
    // The guard first: it would end the command with the lease.
    let mut processes = children_of(job.pid());
    processes.push(job.pid());
    processes.iter().chain([&command]).for_each(|process| signal(*process, "STOP"));
    let second = finish(run(&servers, "--wait 60s", "echo $FENCING_TOKEN"));
    assert!(second.number() > job.token);
    // The first's command is still there: if it woke up now, only the storage could refuse it.
    assert!(runs(command));
    processes.iter().for_each(|process| signal(*process, "CONT"));
    assert_eq!(job.ended().code, Some(76));
    assert!(!runs(command));
}
