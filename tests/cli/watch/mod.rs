//! `fencing watch` on a terminal, with real servers.

mod terminal;

use std::io::Write;

use support::cli::{end, fencing, fencing_at, finish, five, line, run, until, urls};
use support::process;
use support::redis::RedisServer;

use crate::doors::Door;
use crate::doors::client::{ask, connect, head, put};
use crate::doors::upstream::Upstream;
use terminal::Terminal;

const QUICK: &str = "--every 500ms --node-budget 500ms";
const SIZE: (usize, usize) = (80, 24);

/// A view of these nodes.
fn watch(servers: &[RedisServer], options: &str) -> Terminal {
    let arguments = format!("{QUICK} {options}");
    Terminal::start(SIZE, &[("FENCING_REDIS", &urls(servers))], "", &arguments)
}

/// The line of a node, which the screen has room for.
fn of<'a>(lines: &'a [String], server: &RedisServer) -> &'a str {
    let mut found = lines.iter().filter(|line| line.contains(&server.url()));
    found.next().map_or("", String::as_str)
}

fn has(lines: &[String], texts: &[&str]) -> bool {
    lines.iter().any(|line| texts.iter().all(|text| line.contains(text)))
}

#[test]
fn a_lease_comes_and_a_node_that_dies_is_seen() {
    let mut servers = five();
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let mut terminal = watch(&servers, "");
    terminal.shows("NODES  5 of 5 grant, 3 needed");
    terminal.shows("LEASES  0 held");
    terminal.shows("WAITERS, REFUSALS: only processes know them");
    let script = format!(
        "echo x > {}; while ! [ -e {} ]; do sleep 0.02; done",
        ready.display(),
        go.display()
    );
    let holder =
        run(&servers, &["--ttl", "10m", "--holder", "billing-7"], &script).spawn().unwrap();
    line(&ready);
    terminal.until("the lease", |lines| has(lines, &["invoice/42", " billing-7 ", " 5/5"]));
    assert!(of(&terminal.screen(), &servers[0]).contains("grants  era "));

    servers[0].kill();
    terminal.until("one is dead", |lines| {
        let dead = of(lines, &servers[0]);
        dead.contains("NO ANSWER  since ") && !dead.contains("era") && !dead.contains("before")
    });
    terminal.until("the lease on four", |lines| has(lines, &["invoice/42", "billing-7", " 4/5"]));
    // One that hangs holds up nothing: the others go on to tell, and the clock goes on.
    servers[1].signal("STOP");
    terminal.until("one hangs", |lines| of(lines, &servers[1]).contains("NO ANSWER  since "));
    servers[2].cli(&["FLUSHALL"]);
    terminal
        .until("one has forgotten", |lines| of(lines, &servers[2]).contains("  CLOSED  since "));
    terminal.shows("NODES  2 of 5 grant, 3 needed, NO QUORUM");
    terminal.shows("LEASES  NO MAJORITY (2 of 5 tell)");
    let before = terminal.screen()[0].clone();
    terminal.until("it goes on", |lines| lines[0] != before && !has(lines, &["OLD:"]));
    servers[1].signal("CONT");
    terminal.until("it is back", |lines| of(lines, &servers[1]).contains("  grants  era "));
    terminal.press(b"q");
    terminal.left().assert_whole("0");
    std::fs::write(&go, "").unwrap();
    end(holder);
}

#[test]
fn however_it_ends_the_terminal_is_given_back() {
    let servers = five();
    for (keys, status) in [(&b"q"[..], "0"), (b"\x1b", "0"), (b"\x03", "0")] {
        let mut terminal = watch(&servers, "");
        terminal.shows("5 of 5 grant");
        terminal.press(keys);
        terminal.left().assert_whole(status);
    }
    for (signal, status) in [("TERM", "143"), ("HUP", "129"), ("INT", "130")] {
        let terminal = watch(&servers, "");
        terminal.shows("5 of 5 grant");
        process::signal(terminal.pid(), signal);
        terminal.left().assert_whole(status);
    }
}

#[test]
fn without_its_terminal_it_ends() {
    let servers = five();
    let urls = urls(&servers);
    for first in ["", "trap \"\" HUP;"] {
        let terminal = Terminal::start(SIZE, &[("FENCING_REDIS", &urls)], first, QUICK);
        terminal.shows("5 of 5 grant");
        let pid = terminal.pid();
        process::signal(terminal.script(), "KILL");
        until("its end", || !process::runs(pid));
    }
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let mut command = fencing_at("unix:///nowhere");
    command.arg("watch");
    let ended = finish(command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(64), ""), "{ended:?}");
    for instead in ["no terminal", "`fencing leases --json`", "`fencing nodes --json`"] {
        assert!(ended.stderr.contains(instead), "{ended:?}");
    }
    let environment = [("FENCING_REDIS", "unix:///nowhere"), ("TERM", "dumb")];
    let left = Terminal::start(SIZE, &environment, "", "").left();
    assert_eq!(left.status, "64");
    assert!(!left.written.contains('\x1b') && left.written.contains("no terminal"));
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
    for options in ["--marks https://h", "--metrics https://h", "--every 1ms"] {
        let place = [("FENCING_REDIS", "unix:///nowhere")];
        let left = Terminal::start(SIZE, &place, "", options).left();
        assert_eq!(left.status, "64", "{options}");
        assert!(!left.written.contains('\x1b'), "{options}");
    }
}

#[test]
fn processes_tell_who_waits_and_what_they_refused() {
    let servers = five();
    let (serve, upstream) = (Door::serve(&servers, &[]), Upstream::start());
    let proxy = Door::proxy(&upstream, &[]);
    assert_eq!(put(proxy.requests, "/a", 34, "").status, 200);
    let held = ask(serve.requests, "POST", "/leases/a", &[], r#"{"ttl_ms": 600000}"#);
    assert_eq!(held.status, 201);
    let wish = r#"{"wait_ms": 60000}"#;
    let mut waiting = connect(serve.requests);
    let length = wish.len().to_string();
    let text = head("POST", "/leases/a", &[("Content-Length", &length)]) + wish;
    waiting.write_all(text.as_bytes()).unwrap();

    let options = format!("--metrics {} --metrics http://{}/metrics", serve.status, proxy.status);
    let mut terminal = watch(&servers, &options);
    terminal.shows("1 held  1 waiting");
    terminal.shows("0 refused");
    assert_eq!(put(proxy.requests, "/a", 33, "").status, 412);
    terminal.shows("1 (+1) refused");
    terminal.shows("not admitted: fence stale 1 (+1)");
    let name = serve.status.to_string();
    drop(serve);
    terminal.until("it is gone", |lines| {
        has(lines, &[&name, "NO ANSWER since "]) && !has(lines, &["1 waiting"])
    });
    terminal.press(b"q");
    terminal.left().assert_whole("0");
}

#[test]
fn leases_and_marks_in_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", folder.path().display());
    let command = || {
        let mut command = fencing(&[]);
        command.env_remove("FENCING_REDIS").env("FENCING_DATABASE", &url);
        command
    };
    let place = [("FENCING_DATABASE", url.as_str())];
    let arguments = format!("{QUICK} --resource invoice/*");
    let mut terminal = Terminal::start((100, 24), &place, "set -f;", &arguments);
    // There is no file yet.
    terminal.until("no file", |lines| has(lines, &["LEASES", "NO ANSWER since "]));
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let script = format!(
        "echo x > {}; while ! [ -e {} ]; do sleep 0.02; done",
        ready.display(),
        go.display()
    );
    let mut holding = command();
    holding.args(["run", "--resource", "invoice/42", "--ttl", "10m", "--holder", "billing-7"]);
    holding.args(["--", "sh", "-c", &script]);
    let holder = holding.spawn().unwrap();
    line(&ready);
    terminal.until("the lease", |lines| has(lines, &[" invoice/42 billing-7 ", " none"]));
    terminal.shows("MARKS  0");
    for (token, word) in [("1", " same"), ("9", " NEWER")] {
        let mut raise = command();
        raise.args(["marks", "raise", "--resource", "invoice/42", "--token", token, "--yes"]);
        assert_eq!(finish(raise).code, Some(0));
        terminal.until(word, |lines| has(lines, &[" invoice/42 billing-7 ", word]));
    }
    terminal.shows("MARKS  1");
    assert!(!has(&terminal.screen(), &["NODES"]));
    terminal.press(b"q");
    terminal.left().assert_whole("0");
    std::fs::write(&go, "").unwrap();
    end(holder);
}

#[test]
fn a_narrow_screen_without_colours_says_it_too() {
    let mut servers = five();
    servers[0].kill();
    let urls = urls(&servers);
    let colours = |written: &str| written.split("\x1b[0").any(|rest| rest.contains(";31m"));
    for (no, coloured) in [("1", false), ("", true)] {
        let environment = [("FENCING_REDIS", urls.as_str()), ("NO_COLOR", no)];
        let mut terminal = Terminal::start((60, 20), &environment, "", QUICK);
        terminal.until("all of it", |lines| {
            has(lines, &["NODES  4 of 5 grant"])
                && has(lines, &["NO ANSWER  since before "])
                && has(lines, &["LEASES  0 held"])
        });
        terminal.press(b"p");
        terminal.shows(" PAUSED since ");
        terminal.shows("OLD: of ");
        terminal.press(b"p");
        terminal.until("it asks again", |lines| !has(lines, &["OLD: of "]));
        terminal.press(b"q");
        let left = terminal.left();
        left.assert_whole("0");
        assert_eq!(colours(&left.written), coloured);
    }
}
