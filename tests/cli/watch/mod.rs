//! `fencing watch` on a terminal, with real servers.

mod terminal;

use std::io::{BufRead, BufReader};

use support::cli::{Job, ask, end, fencing, five, until, urls};
use support::process;
use support::redis::RedisServer;

pub use terminal::Terminal;

const QUICK: &str = "watch --every 500ms --node-budget 2s";
const SIZE: (u16, u16) = (80, 24);

fn watch(servers: &[RedisServer]) -> Terminal {
    Terminal::start(SIZE, &[("FENCING_REDIS", &urls(servers))], "", QUICK)
}

#[test]
fn a_lease_comes_and_a_node_that_dies_is_seen() {
    let mut servers = five();
    let nodes: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let mut terminal = watch(&servers);
    terminal.shows(&["NODES  5 of 5 grant, 3 needed"]);
    terminal.shows(&["LEASES  0 held"]);
    let holder = Job::start(&servers, "--ttl 10m --holder billing-7 --node-budget 60s", "", "");
    terminal.shows(&["invoice/42 ", " billing-7 ", " 5/5"]);
    terminal.shows(&[&nodes[0], "grants  era "]);

    servers[0].kill();
    terminal.shows(&[&nodes[0], "NO ANSWER  for "]);
    terminal.hides(&[&nodes[0], "era"]);
    terminal.shows(&["invoice/42", "billing-7", " 4/5"]);
    // One that hangs holds up nothing: the others go on to tell, and the clock goes on.
    servers[1].signal("STOP");
    terminal.shows(&[&nodes[1], "NO ANSWER  for "]);
    servers[2].cli(&["FLUSHALL"]);
    terminal.shows(&[&nodes[2], "  CLOSED  for "]);
    terminal.shows(&["NODES  2 of 5 grant, 3 needed, NO QUORUM"]);
    terminal.shows(&["LEASES  NO MAJORITY (2 of 5 answered)"]);
    let before = terminal.screen()[0].clone();
    terminal.until("it goes on", |lines| lines[0] != before);
    terminal.hides(&["OLD:"]);
    servers[1].signal("CONT");
    terminal.shows(&[&nodes[1], "  grants  era "]);
    terminal.press(b"q");
    terminal.left().assert_whole("0");
    holder.go();
}

#[test]
fn however_it_ends_the_terminal_is_given_back_and_without_its_terminal_it_ends() {
    let servers = five();
    for keys in [b"q", b"\x1b", b"\x03"] {
        let mut terminal = watch(&servers);
        terminal.shows(&["5 of 5 grant"]);
        terminal.press(keys);
        terminal.left().assert_whole("0");
    }
    for (signal, status) in [("TERM", "143"), ("HUP", "129"), ("INT", "130")] {
        let terminal = watch(&servers);
        terminal.shows(&["5 of 5 grant"]);
        process::signal(terminal.pid(), signal);
        terminal.left().assert_whole(status);
    }
    for first in ["", "trap \"\" HUP;"] {
        let place = [("FENCING_REDIS", &*urls(&servers))];
        let terminal = Terminal::start(SIZE, &place, first, QUICK);
        terminal.shows(&["5 of 5 grant"]);
        let pid = terminal.pid();
        process::signal(terminal.script(), "KILL");
        until("its end", || !process::runs(pid));
    }
}

#[test]
fn without_a_terminal_it_prints_text() {
    let servers = five();
    let mut child = fencing(&servers, QUICK).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for text in ["fencing watch  namespace fencing", "5 of 5 grant", "  grants  era ", "LEASES  0 held"] {
        // Each picture has all of it, and the next one comes.
        for _ in 0..2 {
            assert!(lines.any(|line| line.contains(text) && !line.contains('\x1b')), "{text}");
        }
    }
    // The reader goes away, which is no failure.
    drop(lines);
    assert_eq!(end(child).code, Some(0));
    let dumb = [("FENCING_REDIS", &*urls(&servers)), ("TERM", "dumb")];
    let terminal = Terminal::start(SIZE, &dumb, "", QUICK);
    terminal.shows(&["5 of 5 grant"]);
    assert!(!terminal.written().contains('\x1b'));
}

#[test]
fn what_can_never_be_asked_ends_it() {
    for (place, words) in [
        (("FENCING_REDIS", "redis://a,redis://a"), "redis://a"),
        (("FENCING_DATABASE", "mysql://h"), "names no database"),
    ] {
        let left = Terminal::start(SIZE, &[place], "", QUICK).left();
        left.assert_whole("64");
        let said = left.written.rsplit("\x1b[?1049l").next().unwrap();
        assert!(said.contains("fencing: ") && said.contains(words), "{said:?}");
    }
    for options in ["--marks https://h", "--every 1ms"] {
        ask("unix:///nowhere", &format!("watch {options}")).says(64, "");
    }
}

#[test]
fn leases_and_marks_in_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", folder.path().display());
    let arguments = format!("{QUICK} --resource invoice/*");
    let place = [("FENCING_DATABASE", url.as_str())];
    let mut terminal = Terminal::start((100, 24), &place, "set -f;", &arguments);
    // There is no file yet.
    terminal.shows(&["LEASES", "NO ANSWER since "]);
    let holder = Job::start(&url, "--ttl 10m --holder billing-7", "", "");
    terminal.shows(&["invoice/42 ", " billing-7 ", " none"]);
    terminal.shows(&["MARKS  0"]);
    for (token, word) in [("1", " same"), ("9", " NEWER")] {
        ask(&url, &format!("db marks raise --resource invoice/42 --token {token} --yes")).printed();
        terminal.shows(&["invoice/42 ", " billing-7 ", word]);
    }
    terminal.shows(&["MARKS  1"]);
    terminal.hides(&["NODES"]);
    terminal.press(b"q");
    terminal.left().assert_whole("0");
    holder.go();
}

#[test]
fn a_narrow_screen_without_colours_says_it_too() {
    let mut servers = five();
    servers[0].kill();
    for (no, coloured) in [("1", false), ("", true)] {
        let environment = [("FENCING_REDIS", &*urls(&servers)), ("NO_COLOR", no)];
        let mut terminal = Terminal::start((60, 20), &environment, "", QUICK);
        terminal.shows(&["NODES  4 of 5 grant"]);
        terminal.shows(&["NO ANSWER  for "]);
        terminal.shows(&["LEASES  0 held"]);
        terminal.press(b"p");
        terminal.shows(&[" PAUSED since "]);
        terminal.shows(&["OLD: from "]);
        terminal.press(b"p");
        terminal.hides(&["OLD: from "]);
        terminal.press(b"q");
        let left = terminal.left();
        left.assert_whole("0");
        assert_eq!(left.written.contains("\x1b[38;5;1"), coloured);
    }
}
