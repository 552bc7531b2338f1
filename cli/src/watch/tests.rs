//! The picture without a terminal, and the terminal after a panic.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use fencing::lock::redlock::{Fleet, RedisNode};
use fencing::lock::{Fault, Holder};
use fencing::time::Time;
use fencing::{Resource, Token};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::view::{MarkList, Moment, Part, View};
use super::{draw, every, picture, screen};
use crate::findings::{Finding, Findings, Turnout};
use crate::leases::{LeaseList, LockView};

/// This many seconds after noon, when the view began.
fn after(seconds: u64) -> Moment {
    let time = Time::from_start(Duration::from_secs(1000 + seconds));
    Moment { time, wall: UNIX_EPOCH + Duration::from_secs(43_200 + seconds) }
}

fn view() -> View {
    let every = Duration::from_secs(2);
    let mut view = View::new(every, Duration::from_secs(1));
    view.place = "namespace fencing".into();
    (view.nodes, view.marks) = (Part::Asking, Part::Asking);
    view
}

/// Nodes that do not grant, for these reasons.
fn nodes(faults: &[(&str, Fault)]) -> Findings {
    let finding = |(name, fault): &(&str, Fault)| Finding {
        node: (*name).to_owned(),
        server: RedisNode::new("redis://h", "fencing").unwrap(),
        report: None,
        problem: Some(fault.clone()),
    };
    let members = (0..faults.len()).map(|number| format!("node-{number}"));
    Findings {
        nodes: faults.iter().map(finding).collect(),
        fleet: Fleet::new(members.collect::<Vec<_>>()).unwrap(),
        budget: Duration::from_secs(1),
        asked: UNIX_EPOCH,
    }
}

fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

fn lease(name: &str, token: u64) -> LockView {
    LockView {
        resource: resource(name),
        holder: None::<Holder>,
        shared: false,
        holders: 1,
        remaining: Some(Duration::from_secs(7)),
        token: Token::new(token).ok(),
        nodes: Some(3),
        held: Some(true),
    }
}

fn leases(all: Vec<LockView>) -> LeaseList {
    let turnout = Some(Turnout { answered: 3, remember: 3, needed: 2, size: 3 });
    LeaseList { all, turnout, faults: Vec::new() }
}

fn marks(of: &[(&str, Option<u64>)]) -> MarkList {
    let token = |token: u64| Token::new(token).unwrap();
    let of: BTreeMap<_, _> = of.iter().map(|(name, mark)| (resource(name), mark.map(token))).collect();
    MarkList { count: of.len() as u64, of, ..MarkList::default() }
}

/// The lines on a screen of this size.
fn drawn(view: &mut View, now: u64, (width, height): (u16, u16)) -> Vec<String> {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw::draw(&mut buffer, view, after(now));
    let rows = buffer.content().chunks(usize::from(width).max(1));
    let text = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    text.map(|line| line.trim_end().to_owned()).collect()
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

/// Every source has answered.
fn full() -> View {
    let mut view = view();
    let faults = [
        ("redis://a:6379", Fault::NotMaster),
        ("redis://b:6379", Fault::Quarantined(Duration::from_secs(8))),
        ("redis://c:6379", Fault::TimedOut),
    ];
    view.set_nodes(after(1), Ok(nodes(&faults)));
    let of = [("invoice/1", None), ("invoice/2", Some(41)), ("invoice/3", Some(44))];
    view.marks.set(after(1), Ok(marks(&of)));
    let mut few = lease("invoice/4", 7);
    (few.held, few.nodes, few.token) = (Some(false), Some(1), None);
    let held = [("invoice/1", 33), ("invoice/2", 41), ("invoice/3", 43)];
    let held = held.map(|(name, token)| lease(name, token)).into_iter();
    view.leases.set(after(1), Ok(leases(held.chain([few]).collect())));
    view
}

#[test]
fn a_picture_has_all_of_it() {
    let lines = drawn(&mut full(), 4, (80, 17));
    let expected = [
        " fencing watch  namespace fencing  every 2s                           12:00:04Z",
        "NODES  0 of 3 grant, 2 needed, NO QUORUM  3s ago",
        "  redis://a:6379  CLOSED  for 0ms",
        "    not a master",
        "  redis://b:6379  QUARANTINED  8s left",
        "  redis://c:6379  NO ANSWER  for 0ms",
        "    timed out",
        "MARKS  3  3s ago",
        "LEASES  3 held, 1 on too few nodes!  3s ago",
    ];
    assert_eq!(lines[..9], expected, "{lines:#?}");
    for (row, words) in [
        (9, "RESOURCE HOLDER ENDS IN TOKEN NODES MARK"),
        (10, "invoice/1 - 7s 33 3/3 none"),
        (11, "invoice/2 - 7s 41 3/3 same"),
        (12, "invoice/3 - 7s 43 3/3 NEWER"),
        (13, "invoice/4 - 7s - 1/3!"),
        (16, "q quit p pause arrows PgUp PgDn scroll"),
    ] {
        let row: Vec<&str> = lines[row].split_whitespace().collect();
        assert_eq!(row.join(" "), words, "{lines:#?}");
    }
    let text = picture(&mut full(), after(4));
    for part in ["12:00:04Z", "NODES  0 of 3", "MARKS  3", "LEASES  3 held", "invoice/4"] {
        assert!(has(&text, part), "{text:#?}");
    }
}

#[test]
fn how_long_a_state_was_seen() {
    let mut view = view();
    let silent = |why| nodes(&[("c", Fault::Unreachable(why))]);
    view.set_nodes(after(1), Ok(nodes(&[("c", Fault::NotMaster)])));
    view.set_nodes(after(3), Ok(silent("refused".into())));
    view.set_nodes(after(5), Ok(silent("no route".into())));
    assert!(has(&drawn(&mut view, 6, (80, 24)), "  c  NO ANSWER  for 2s"));
}

#[test]
fn a_failure_replaces_the_last_answer() {
    let mut view = full();
    for now in [5, 7] {
        view.leases.set(after(now), Err("the database cannot be reached".into()));
        view.marks.set(after(now), Err("no table".into()));
    }
    let lines = drawn(&mut view, 8, (80, 24));
    assert!(has(&lines, "NO ANSWER since 12:00:05Z, 3s"), "{lines:#?}");
    assert!(has(&lines, "    the database cannot be reached"), "{lines:#?}");
    assert!(has(&lines, "    no table"), "{lines:#?}");
    assert!(!has(&lines, "invoice/") && !has(&lines, "MARKS  3"), "{lines:#?}");
}

#[test]
fn an_old_answer_is_called_old() {
    let mut view = full();
    // Every two seconds, and a node may take one: by then all should have answered again.
    assert!(!has(&drawn(&mut view, 6, (80, 24)), "OLD:"));
    let lines = drawn(&mut view, 13, (80, 24));
    for part in ["NODES", "MARKS", "LEASES"] {
        let line = lines.iter().find(|line| line.starts_with(part)).unwrap();
        assert!(line.ends_with("OLD: from 12:00:01Z, 12s ago"), "{line}");
    }
    view.paused = Some(after(14));
    assert!(has(&drawn(&mut view, 20, (60, 24)), "PAUSED since 12:00:14Z  p resumes"));
}

#[test]
fn before_an_answer_nothing_is_claimed() {
    let lines = drawn(&mut view(), 0, (80, 12));
    for part in ["NODES", "MARKS", "LEASES"] {
        assert!(has(&lines, &format!("{part}  asking ...")), "{lines:#?}");
    }
}

#[test]
fn nothing_that_others_have_named_reaches_the_terminal_raw() {
    const EVIL: &str = "a\u{1b}[2J\u{202e}b\u{200b}\r\n\u{9b}c";
    let mut view = full();
    view.place = EVIL.into();
    let faults = [(EVIL, Fault::Unreachable(EVIL.into())), ("d", Fault::NotMaster)];
    view.set_nodes(after(1), Ok(nodes(&faults)));
    let mut listed = leases(vec![lease("r", 1)]);
    listed.faults = vec![("e".to_owned(), Fault::Unreachable(EVIL.into()))];
    listed.all[0].holder = None;
    view.leases.set(after(1), Ok(listed));
    view.marks.set(after(1), Err(EVIL.into()));
    let text = drawn(&mut view, 1, (100, 30)).concat();
    assert!(text.matches("\u{fffd}[2J\u{fffd}b\u{fffd}").count() >= 4, "{text}");
    let bad = |c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
    assert!(!text.contains(bad), "{text:?}");
}

#[test]
fn it_fits_on_any_screen() {
    let mut view = full();
    for width in 0..130 {
        for height in [0, 1, 2, 3, 5, 20, 60] {
            let _ = drawn(&mut view, 4, (width, height));
        }
    }
    let lines = drawn(&mut view, 4, (60, 20));
    for text in ["c:6379  NO ANSWER", "invoice/3", "NEWER", "1/3!"] {
        assert!(has(&lines, text), "{text}: {lines:#?}");
    }
}

#[test]
fn every_lease_can_be_scrolled_to_under_its_heading() {
    let mut view = full();
    let all = (0..100).map(|number| lease(&format!("r/{number:02}"), 1)).collect();
    view.leases.set(after(4), Ok(leases(all)));
    let mut seen = Vec::new();
    for _ in 0..40 {
        let lines = drawn(&mut view, 4, (80, 20));
        assert!(has(&lines, "RESOURCE") && has(&lines, "LEASES  100 held"), "{lines:#?}");
        let rows: Vec<&str> = lines.iter().filter(|line| line.starts_with("r/")).map(|line| &line[..4]).collect();
        let shown: Vec<String> = view.on_screen().iter().map(Resource::to_string).collect();
        assert_eq!(rows, shown, "{lines:#?}");
        seen.extend(shown);
        view.first += view.page;
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 100);
    // Beyond the end nothing is counted: the next key acts.
    view.first = usize::MAX;
    let last = drawn(&mut view, 4, (80, 20));
    assert_eq!(view.first, 100 - view.page);
    assert!(last.last().unwrap().ends_with("-100 of 100"));
}

/// It runs itself on a terminal, which `script` makes, and there a thread panics.
#[test]
fn a_panic_gives_the_terminal_back() {
    if std::env::var_os("ON_A_TERMINAL").is_some() {
        let _screen = screen().unwrap();
        panic!("on purpose");
    }
    let me = std::env::current_exe().unwrap();
    let test = "watch::tests::a_panic_gives_the_terminal_back";
    let line = format!(
        "before=$(stty -g); ON_A_TERMINAL=1 {} --exact {test} --nocapture; \
         if [ \"$before\" = \"$(stty -g)\" ]; then echo as before; fi",
        me.display()
    );
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh").env("TERM", "xterm");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    drop(stdin);
    child.wait().unwrap();
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text:?} in {said:?}"));
    assert!(at("\x1b[?1049h") < at("\x1b[?1049l"), "{said:?}");
    assert!(at("\x1b[?1049l") < at("on purpose") && at("on purpose") < at("as before"), "{said:?}");
}

#[test]
fn it_asks_neither_all_the_time_nor_never() {
    for text in ["500ms", "2s", "1h"] {
        assert!(every(text).is_ok(), "{text}");
    }
    for text in ["0s", "499ms", "2h", "2"] {
        assert!(every(text).is_err(), "{text}");
    }
}
