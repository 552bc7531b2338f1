//! The picture, without a terminal; and what becomes of the terminal in a panic.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use fencing::time::Time;
use fencing::{Resource, Token};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Color;

use super::draw::{Shown, draw};
use super::exposition::Process;
use super::keys::Key;
use super::look::Look;
use super::moment::Moment;
use super::screen::Screen;
use super::told::{Lease, Leases, Marks, Node, Nodes, State, Told};
use super::view::{Asked, View};

/// So many seconds after noon, when the view began.
fn after(seconds: u64) -> Moment {
    Moment::of(Time::from_start(Duration::from_secs(1000 + seconds)), 43_200 + seconds)
}

fn view() -> View {
    let asked = Asked {
        place: "namespace fencing".into(),
        resource: "*".into(),
        every: Duration::from_secs(2),
        budget: Duration::from_secs(1),
    };
    View::new(asked, after(0), true, true, std::iter::once("billing:9000".to_owned()))
}

fn node(name: &str, state: State) -> Node {
    let answers = !matches!(state, State::Silent(_));
    let told = |value| answers.then_some(value);
    Node { name: name.into(), state, era: told(2_810_756), counts: told(12) }
}

fn nodes(states: [State; 3]) -> Told {
    let names = ["redis://a:6379", "redis://b:6379", "redis://c:6379"];
    let all = names.into_iter().zip(states).map(|(name, state)| node(name, state)).collect();
    Told::Nodes(Nodes { all, needed: 2, opens_in: None })
}

fn silent() -> State {
    State::Silent("timed out".into())
}

fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

fn lease(name: &str, holder: &str, token: u64) -> Lease {
    Lease {
        resource: resource(name),
        holder: Some(holder.into()),
        since: Some("2026-11-22T11:58:00Z".into()),
        remaining: Some(Duration::from_secs(7)),
        token: Some(Token::new(token).unwrap()),
        shared: false,
        nodes: Some(3),
        is_held: true,
    }
}

fn leases(all: Vec<Lease>) -> Told {
    Told::Leases(Ok(Leases { all, nodes: Some((3, 2, 3)), faults: Vec::new() }))
}

fn marks(of: &[(&str, Option<u64>)]) -> Told {
    let token = |token: u64| Token::new(token).unwrap();
    let of: BTreeMap<_, _> =
        of.iter().map(|(name, mark)| (resource(name), mark.map(token))).collect();
    Told::Marks(Ok(Marks { count: of.len() as u64, of, ..Marks::default() }))
}

fn metrics(stale: u64) -> Told {
    let text = format!(
        "fencing_leases 3\nfencing_waiting 2\nfencing_leases_lost_total 0\n\
         fencing_admissions_total{{door=\"fence\",outcome=\"stale\"}} {stale}\n\
         fencing_admissions_total{{door=\"http\",outcome=\"shadow_missing\"}} 4\n"
    );
    Told::Process(0, Ok(Process::read(&text)))
}

fn drawn(view: &View, now: u64, (width, height): (u16, u16), colour: bool) -> (Buffer, Shown) {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let shown = draw(&mut buffer, view, after(now), Look { colour });
    (buffer, shown)
}

/// The lines of the picture, without the spaces at their ends.
fn picture(view: &View, now: u64, size: (u16, u16)) -> Vec<String> {
    let (buffer, _) = drawn(view, now, size, true);
    let line = |cells: &[ratatui_core::buffer::Cell]| {
        cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
    };
    buffer.content().chunks(usize::from(size.0)).map(line).collect()
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

/// Everything has told something.
fn full() -> View {
    let mut view = view();
    view.tell(
        after(1),
        nodes([State::Grants, State::Quarantined(Some(Duration::from_secs(8))), silent()]),
    );
    view.tell(after(1), metrics(5));
    view.tell(
        after(1),
        marks(&[("invoice/1", None), ("invoice/2", Some(41)), ("invoice/3", Some(44))]),
    );
    let mut few = lease("invoice/4", "gone", 7);
    (few.is_held, few.nodes, few.token) = (false, Some(1), None);
    view.tell(
        after(1),
        leases(vec![
            lease("invoice/1", "billing-7", 33),
            lease("invoice/2", "billing-8", 41),
            lease("invoice/3", "billing-9", 43),
            few,
        ]),
    );
    view.tell(after(3), metrics(7));
    view
}

#[test]
fn a_picture_has_all_of_it() {
    let lines = picture(&full(), 4, (80, 20));
    let expected = [
        " fencing watch  namespace fencing  every 2s                           12:00:04Z",
        "NODES  1 of 3 grant, 2 needed, NO QUORUM                                 3s ago",
        "  redis://a:6379  grants  era 2810756  12 counts",
        "  redis://b:6379  QUARANTINED  for 8s  era 2810756  12 counts",
        "  redis://c:6379  NO ANSWER  since before 12:00:01Z",
        "    timed out",
        "PROCESSES  (+: since 12:00:00Z)",
        "  billing:9000  3 held  2 waiting  0 lost  7 (+2) refused                1s ago",
        "    not admitted: fence stale 7 (+2), http shadow_missing 4",
        "MARKS  3                                                                 3s ago",
        "LEASES  3 held, 1 on too few nodes!                                      3s ago",
        " RESOURCE  HOLDER    SINCE          ENDS IN TOKEN NODES MARK",
        " invoice/1 billing-7 11-22 11:58:00 7s      33    3/3   none",
        " invoice/2 billing-8 11-22 11:58:00 7s      41    3/3   same",
        " invoice/3 billing-9 11-22 11:58:00 7s      43    3/3   NEWER",
        " invoice/4 gone      11-22 11:58:00 7s      -     1/3!",
        "",
        "",
        "",
        " q quit  p pause  arrows PgUp PgDn scroll",
    ];
    assert_eq!(lines, expected, "{lines:#?}");
}

#[test]
fn a_node_that_does_not_answer_is_not_shown_as_it_was() {
    let mut view = view();
    view.tell(after(1), nodes([State::Grants, State::Grants, State::Grants]));
    view.tell(after(3), nodes([State::Grants, State::Grants, silent()]));
    view.tell(after(5), nodes([State::Grants, State::Grants, State::Silent("refused".into())]));
    let lines = picture(&view, 6, (80, 24));
    let line = lines.iter().find(|line| line.contains("c:6379")).unwrap();
    assert_eq!(line, "  redis://c:6379  NO ANSWER  since 12:00:03Z, 2s");
    view.tell(after(7), nodes([State::Grants, State::Grants, State::Grants]));
    assert!(!has(&picture(&view, 7, (80, 24)), "NO ANSWER"));
}

#[test]
fn leases_that_cannot_be_read_are_gone() {
    let mut view = full();
    view.tell(after(5), Told::Leases(Err("the database cannot be reached".into())));
    view.tell(after(7), Told::Leases(Err("the database cannot be reached".into())));
    view.tell(after(7), Told::Marks(Err("no table".into())));
    let lines = picture(&view, 8, (80, 24));
    assert!(has(&lines, "NO ANSWER since 12:00:05Z, 3s"), "{lines:#?}");
    assert!(has(&lines, "    the database cannot be reached"), "{lines:#?}");
    assert!(has(&lines, "    no table"), "{lines:#?}");
    assert!(!has(&lines, "billing-7") && !has(&lines, "MARK  "), "{lines:#?}");
}

#[test]
fn what_is_not_of_now_says_so() {
    let mut view = full();
    // Every two seconds, and a node may take one: by then all should have told again.
    assert!(!has(&picture(&view, 6, (80, 24)), "OLD:"));
    let lines = picture(&view, 13, (80, 24));
    for part in ["NODES", "MARKS", "LEASES"] {
        let line = lines.iter().find(|line| line.starts_with(part)).unwrap();
        assert!(line.ends_with("OLD: of 12:00:01Z, 12s ago"), "{line}");
    }
    assert!(has(&lines, "OLD: of 12:00:03Z, 10s ago"), "{lines:#?}");
    view.press(Key::Pause, after(14), 10);
    let lines = picture(&view, 20, (60, 24));
    assert!(has(&lines, "PAUSED since 12:00:14Z, 6s  p goes on"), "{lines:#?}");
    // For how long a node is silent nobody knows while nobody asks; nor whether it changed just now.
    view.tell(after(30), nodes([silent(), State::Grants, State::Grants]));
    assert!(has(&picture(&view, 31, (80, 24)), "a:6379  NO ANSWER  since before 12:00:30Z"));
    view.tell(after(32), nodes([silent(), silent(), State::Grants]));
    assert!(has(&picture(&view, 90, (80, 24)), "b:6379  NO ANSWER  since 12:00:32Z, 0s"));
    view.press(Key::Pause, after(91), 10);
    assert!(!has(&picture(&view, 91, (80, 24)), "PAUSED"));
}

#[test]
fn before_anything_is_told_nothing_is_claimed() {
    let lines = picture(&view(), 0, (80, 12));
    for part in ["NODES", "MARKS", "LEASES", "  billing:9000"] {
        let line = lines.iter().find(|line| line.starts_with(part)).unwrap();
        let rest = line.strip_prefix(part).unwrap();
        assert_eq!(rest.trim(), "asking ...", "{line}");
    }
    let none = View::new(view().asked, after(0), false, false, std::iter::empty());
    let lines = picture(&none, 0, (60, 12));
    assert!(
        has(&lines, "WAITERS, REFUSALS: only processes know them. Add --metrics"),
        "{lines:#?}"
    );
    assert!(!has(&lines, "NODES") && !has(&lines, "MARKS"), "{lines:#?}");
}

#[test]
fn nothing_that_others_have_named_reaches_the_terminal_raw() {
    const EVIL: &str = "a\u{1b}[2J\u{202e}b\u{200b}\r\n\u{9b}c";
    let mut view = View::new(view().asked, after(0), true, true, std::iter::once(EVIL.to_owned()));
    view.asked.place = EVIL.into();
    view.asked.resource = EVIL.into();
    let states = [State::Closed(EVIL.into()), State::Silent(EVIL.into()), State::Grants];
    let all = states.into_iter().map(|state| node(EVIL, state)).collect();
    view.tell(after(1), Told::Nodes(Nodes { all, needed: 2, opens_in: None }));
    let mut odd = lease("r", EVIL, 1);
    odd.since = Some(EVIL.repeat(4));
    let faults = vec![("d".to_owned(), EVIL.to_owned())];
    view.tell(after(1), Told::Leases(Ok(Leases { all: vec![odd], nodes: None, faults })));
    view.tell(after(1), Told::Marks(Err(EVIL.into())));
    let refused = BTreeMap::from([((EVIL.to_owned(), EVIL.to_owned()), 1.0)]);
    view.tell(after(1), Told::Process(0, Ok(Process { refused, ..Process::default() })));
    let seen = |view: &View| {
        let text = picture(view, 1, (80, 30)).concat();
        assert!(text.matches("\u{fffd}[2J\u{fffd}b\u{fffd}").count() >= 6, "{text}");
        let bad = |c: char| {
            c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        };
        assert!(!text.contains(bad), "{text:?}");
    };
    seen(&view);
    view.tell(after(1), Told::Process(0, Err(EVIL.into())));
    seen(&view);
}

#[test]
fn it_fits_on_any_screen() {
    let view = full();
    for width in 0..130 {
        for height in [0, 1, 2, 3, 5, 20, 60] {
            let _ = drawn(&view, 4, (width, height), true);
        }
    }
    let lines = picture(&view, 4, (60, 20));
    for text in
        ["c:6379  NO ANSWER  since before 12:00:01Z", "invoice/3 billing-9", "NEWER", "1/3!"]
    {
        assert!(has(&lines, text), "{text}: {lines:#?}");
    }
    // The names keep their room, and the other columns go.
    let mut long = super::tests::view();
    let name = "orders/2026/11/22/customer-4711/invoice";
    long.tell(
        after(1),
        leases(vec![lease(name, "billing-worker-17.example:31246", 28_107_268_000_001)]),
    );
    long.tell(after(1), marks(&[(name, Some(28_107_268_000_002))]));
    let lines = picture(&long, 1, (60, 20));
    assert!(
        has(&lines, " orders/20\u{2026}1/invoice billing-w\u{2026}ple:31246 7s      3/3   NEWER"),
        "{lines:#?}"
    );
    assert!(has(
        &picture(&long, 1, (130, 20)),
        " 2026-11-22T11:58:00Z 7s      28107268000001 3/3   NEWER"
    ));
}

#[test]
fn every_lease_can_be_scrolled_to_under_its_heading() {
    let mut view = full();
    let all = (0..100).map(|number| lease(&format!("r/{number:02}"), "h", 1)).collect();
    view.tell(after(4), leases(all));
    let mut seen = Vec::new();
    for key in [Key::Home].into_iter().chain([Key::PageDown; 20]) {
        let (_, shown) = drawn(&view, 4, (80, 20), true);
        view.offset = shown.offset;
        view.press(key, after(4), shown.page);
        let (_, shown) = drawn(&view, 4, (80, 20), true);
        let lines = picture(&view, 4, (80, 20));
        let rows: Vec<&String> = lines.iter().filter(|line| line.starts_with(" r/")).collect();
        assert_eq!(rows.len(), shown.leases.len(), "{lines:#?}");
        for (row, number) in rows.iter().zip(shown.leases) {
            assert!(row.starts_with(&format!(" r/{number:02} ")), "{row}");
            seen.push(number);
        }
        assert!(
            rows.is_empty() || has(&lines, " RESOURCE HOLDER") && has(&lines, "LEASES  100 held")
        );
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    assert!(picture(&view, 4, (80, 20)).last().unwrap().ends_with("-111 of 111"));
    // Beyond the end nothing is counted: the next key acts.
    view.press(Key::End, after(4), 18);
    view.offset = drawn(&view, 4, (80, 20), true).1.offset;
    assert_eq!(view.offset, 111 - 18);
    view.press(Key::Up, after(4), 18);
    assert_eq!(view.offset, 111 - 19);
}

#[test]
fn a_colour_says_nothing_that_a_word_does_not() {
    let symbols = |buffer: &Buffer| {
        buffer.content().iter().map(|c| c.symbol().to_owned()).collect::<Vec<_>>()
    };
    let (with, _) = drawn(&full(), 4, (80, 24), true);
    let (without, _) = drawn(&full(), 4, (80, 24), false);
    assert_eq!(symbols(&with), symbols(&without));
    assert!(with.content().iter().any(|cell| cell.fg == Color::Red));
    assert!(
        without.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
}

#[test]
fn a_process_that_was_started_anew_counts_from_zero() {
    let mut view = view();
    view.tell(after(1), metrics(50));
    assert!(has(&picture(&view, 1, (80, 24)), "50 refused"));
    view.tell(after(2), Told::Process(0, Err("timed out".into())));
    assert!(has(&picture(&view, 2, (80, 24)), "NO ANSWER since 12:00:02Z, 0s"));
    assert!(!has(&picture(&view, 2, (80, 24)), "refused"));
    view.tell(after(3), metrics(3));
    assert!(has(&picture(&view, 3, (80, 24)), "3 (+3) refused"));
    view.tell(after(4), Told::Process(0, Ok(Process::read("fencing_nodes 5"))));
    assert!(has(&picture(&view, 4, (80, 24)), "tells of nodes only"));
}

/// It runs itself on a terminal, which `script` makes, and there a thread panics.
#[test]
fn a_panic_gives_the_terminal_back() {
    if std::env::var_os("ON_A_TERMINAL").is_some() {
        let _screen = Screen::enter().unwrap();
        let thread = std::thread::spawn(|| panic!("on purpose"));
        let _ = thread.join();
        return;
    }
    let me = std::env::current_exe().unwrap();
    let test = "watch::tests::a_panic_gives_the_terminal_back";
    let line = format!(
        "before=$(stty -g); ON_A_TERMINAL=1 {} --exact {test} --nocapture; echo status $?; \
         if [ \"$before\" = \"$(stty -g)\" ]; then echo as before; fi",
        me.display()
    );
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    drop(stdin);
    child.wait().unwrap();
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text:?} in {said:?}"));
    assert!(at("\x1b[?1049h") < at("\x1b[?25h\x1b[?1049l"), "{said:?}");
    assert!(at("\x1b[?1049l") < at("on purpose"), "{said:?}");
    assert!(at("status 101") < at("as before"), "{said:?}");
}
