//! A lost lease stops the command.

use support::cli::{end, five, line, run, until};
use support::process::{runs, signal};

#[test]
fn when_all_nodes_stop_the_command_gets_sigterm() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!(
        "trap 'echo terminated; exit 0' TERM; echo $FENCING_TOKEN > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let child = run(&servers, &["--ttl", "6s"], &script).spawn().unwrap();
    let token = line(&ready);
    servers.iter().for_each(|server| server.signal("STOP"));
    let ended = end(child);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(76), "terminated\n"));
    let words = format!("lease lost, invoice/42 token {token}: it was not renewed in time (");
    assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    // It says which nodes are to blame.
    assert!(ended.stderr.contains("(the last renewal failed: "), "{}", ended.stderr);
}

#[test]
fn a_command_that_ends_while_fencing_is_paused_past_its_ttl_is_no_success() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let script = format!(
        "echo $$ > {}; while [ ! -e {} ]; do sleep 0.05; done",
        ready.display(),
        go.display()
    );
    let child = run(&servers, &["--ttl", "5s"], &script).spawn().unwrap();
    let pid: u32 = line(&ready).parse().unwrap();
    signal(child.id(), "STOP");
    std::thread::sleep(std::time::Duration::from_secs(6));
    std::fs::write(&go, "").unwrap();
    until("the end of the command", || !runs(pid));
    signal(child.id(), "CONT");
    end(child).says(76, "lease lost, invoice/42 token ");
}
