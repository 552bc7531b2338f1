//! Replace, grow, shrink, rename while clients restart in turn; the mover is killed, repeated, and run twice at once.

use crate::fleet::crew::Crew;
use crate::fleet::place::*;

const CLIENTS: usize = 4;

#[track_caller]
fn moved(ended: Ended, to: &str) -> String {
    let printed = ended.printed();
    assert!(printed.contains("moved. "), "{printed}");
    let give = "Give every client the new list now: ";
    let told = printed.lines().find_map(|line| line.strip_prefix(give)).unwrap();
    assert_eq!(told.split(',').count(), to.split(',').count());
    printed
}

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
        moved(end(child), to);
    }
    // And it may be run again when it has been done.
    assert!(moved(finish(mover(from, to)), to).contains("The new list was in use before this run."));

    // Clients get the new list one by one; those who have the old one are told.
    for client in 0..CLIENTS {
        crew.is_sent_away(CLIENTS - 1);
        if client < CLIENTS - 1 {
            crew.restart(client, to);
        }
    }
    crew.is_sent_away(CLIENTS - 1);
    lease(from, "--wait 0s").unwrap_err().says(69, "");
    nodes(to, 0, "");
    nodes(from, 69, "0 of ");
    lease(to, "").unwrap();
    crew.restart(CLIENTS - 1, to);
    assert!(crew.check() as usize > 3 * CLIENTS);
}

#[test]
fn a_dead_one_of_three_is_replaced() {
    let (mut servers, from, to) = two_lists(4, 1);
    servers[0].kill();
    scenario(&from, &to, 2);
}

#[test]
fn three_grow_to_five() {
    let servers = servers(5);
    init(&servers[..3]);
    scenario(&urls(&servers[..3]), &urls(&servers), 3);
}

#[test]
fn five_shrink_to_three() {
    let servers = started(servers(5));
    scenario(&urls(&servers), &urls(&servers[..3]), 4);
}

#[test]
fn all_three_are_replaced() {
    let (servers, from, to) = two_lists(6, 3);
    half_moved(&servers[..1], &to);
    scenario(&from, &to, 5);
}

#[test]
fn the_same_servers_get_names_and_then_other_addresses() {
    let servers = started(servers(3));
    let named = |(number, server): (usize, &RedisServer)| format!("node-{number}={}", server.url());
    let to = servers.iter().enumerate().map(named).collect::<Vec<_>>().join(",");
    scenario(&urls(&servers), &to, 6);
    // Under a name of its own a node changes its address without a move.
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.sock");
    std::os::unix::fs::symlink(servers[0].socket(), &other).unwrap();
    let elsewhere = to.replace(&servers[0].url(), &format!("unix://{}", other.display()));
    lease(&elsewhere, "").unwrap();
    nodes(&elsewhere, 0, "");
}

/// A move was interrupted after the seal, and the new node is gone for good: a new server takes its name.
#[test]
fn a_move_goes_on_without_a_new_node_that_is_gone() {
    let mut servers = servers(5);
    let (from, to) = (urls(&servers[..3]), urls(&servers[1..4]));
    init(&from);
    let before = lease(&from, "").unwrap();
    half_moved(&servers[..3], &to);
    servers[3].kill();
    let name = servers[3].url();
    let advice = format!("in --to, {name}=redis://ADDRESS in place of {name}");
    finish(mover(&from, &to)).says(69, &advice);
    // From the list that was not started the counts would be lost.
    let elsewhere = [urls(&servers[1..3]), servers[4].url()].join(",");
    let command = format!("fleet move --lost --yes --ttl 10s --from {to} --to {elsewhere} --node-budget 2s");
    ask("", &command).says(69, "--from: the move from another list to this one has begun, and is not done");
    let to = to.replace(&name, &format!("{name}={}", servers[4].url()));
    moved(finish(mover(&from, &to)), &to);
    lease(&from, "--wait 0s").unwrap_err();
    assert!(lease(&to, "").unwrap() > before);
}

/// A node of the list has missed the end of the move to it. That does not keep a later move from going on.
#[test]
fn a_move_goes_on_from_a_list_that_lacks_a_node() {
    let (servers, from, to) = two_lists(4, 1);
    let before = lease(&from, "").unwrap();
    half_moved(&servers[..1], &from);
    // It has left a list of its own.
    let marker = servers[0].cli(&["HGET", MEMORY, "sealed_as"]);
    let alone = marker.replace(marker.split_once(' ').unwrap().1, &servers[0].url());
    servers[0].cli(&["HSET", MEMORY, "sealed_as", &alone]);
    half_moved(&servers[1..3], &to);
    moved(finish(mover(&from, &to)), &to);
    assert!(lease(&to, "").unwrap() > before);
}

#[test]
fn a_lease_of_the_old_list_keeps_the_new_one_closed() {
    let (servers, from, to) = two_lists(4, 1);
    let holder = Job::start(&from, "--ttl 10m", "", "");
    let printed = moved(finish(mover(&from, &to)), &to);
    let stop = format!("Leave the remaining servers of the old list ({}) running", servers[0].url());
    assert!(printed.contains("Leases are granted in ") && printed.contains(&stop), "{printed}");
    // Nobody gets it while it may be held.
    finish(run(&to, "--ttl 10m --wait 0s", "echo never")).says(69, "");
    holder.go();
}

#[test]
fn an_old_list_that_is_a_minority_of_the_new_one_is_warned_of() {
    let servers = servers(5);
    init(&servers[..1]);
    for (old, new, warns) in [(1, 3, true), (3, 5, false)] {
        let (old, new) = (urls(&servers[..old]), urls(&servers[..new]));
        let printed = moved(finish(mover(&old, &new)), &new);
        let warned = printed.contains("The old list is a minority of the new one");
        assert_eq!(warned, warns, "{printed}");
    }
}

#[test]
fn a_move_without_a_majority_of_the_old_list_changes_nothing() {
    let (mut servers, from, to) = two_lists(6, 3);
    let before = lease(&from, "").unwrap();
    servers[0].kill();
    servers[1].signal("STOP");
    let why = "1 of 3 nodes of --from answer with their state, and 2 are needed: nothing was changed";
    finish(mover(&from, &to)).says(69, why);
    servers[1].signal("CONT");
    assert!(lease(&from, "").unwrap() > before);
}

/// The message to an operator whose --from is out of date does not suggest --lost.
#[test]
fn a_move_from_another_list_than_that_of_the_clients_is_refused() {
    let servers = servers(5);
    init(&servers[..3]);
    let (from, to) = (urls(&servers[1..4]), urls(&servers[4..]));
    finish(mover(&from, &to)).says(65, "nothing was changed: is --from the list that clients have now?");
    lease(&urls(&servers[..3]), "").unwrap();
}

/// Otherwise the others would leave, and that one would not join them: no list would be started. When all have left,
/// the counts of their list are on their way to the other one.
#[test]
fn no_move_begins_where_one_node_or_all_have_left_for_another_list() {
    const REFUSED: &str = "nothing was changed: a node of --from has left for another list";
    let servers = servers(5);
    let (from, other) = (urls(&servers[..3]), urls(&servers[..4]));
    init(&from);
    let before = lease(&from, "").unwrap();
    half_moved(&servers[..1], &other);
    let to = [urls(&servers[..3]), servers[4].url()].join(",");
    finish(mover(&from, &to)).says(65, REFUSED);
    assert!(lease(&from, "").unwrap() > before);
    half_moved(&servers[1..3], &other);
    finish(mover(&from, &servers[4].url())).says(65, REFUSED);
    moved(finish(mover(&from, &other)), &other);
}

/// Its nodes are at work in the list that clients have.
#[test]
fn an_old_list_is_not_given_up_as_lost_while_its_nodes_are_in_another() {
    let servers = servers(5);
    let [from, now] = [&servers[..3], &servers[1..4]].map(urls);
    init(&from);
    let printed = moved(finish(mover(&from, &now)), &now);
    assert!(!printed.contains("in use before this run"), "{printed}");
    let mut lost = mover(&from, &servers[4].url());
    lost.args(["--lost", "--yes", "--ttl", "10s"]);
    finish(lost).says(65, "nothing was changed: a node of --from belongs to another list, or has left for it");
    lease(&now, "").unwrap();
}

/// Nothing shows that they have left.
#[test]
fn without_the_old_servers_a_move_that_is_done_is_repeated_as_lost() {
    let (mut servers, from, to) = two_lists(6, 3);
    moved(finish(mover(&from, &to)), &to);
    servers[..3].iter_mut().for_each(RedisServer::kill);
    finish(mover(&from, &to))
        .says(69, "If an earlier run printed `moved`, the move is done (after --lost, keep the old servers");
    let mut lost = mover(&from, &to);
    lost.args(["--lost", "--yes", "--ttl", "10s"]);
    moved(finish(lost), &to);
}

/// The new list may be another fleet, and the old one go on beside it.
#[test]
fn a_list_that_is_in_use_is_no_proof_of_a_move() {
    let (servers, from, to) = two_lists(6, 3);
    init(&to);
    servers[1..3].iter().for_each(|server| server.signal("STOP"));
    let why = "the new list is in use, and 0 nodes of the old one, of 2 that are needed, say that they left for it";
    finish(mover(&from, &to)).says(69, why);
    servers[1..3].iter().for_each(|server| server.signal("CONT"));
    nodes(&from, 0, "");
    finish(mover(&from, &to)).says(65, "both lists are in use");
    nodes(&from, 0, "");
}
