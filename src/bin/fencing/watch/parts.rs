//! What is told, as lines.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::exposition::{Process, is_refusal};
use super::look::Look;
use super::moment::{Moment, span};
use super::plain::{columns, fit, wrapped};
use super::told::{Marks, Node, Nodes, State};
use super::view::{Part, View, Watched};
use crate::duration::about;

/// On a screen that is narrower than this, a few words are left out.
const NARROW: usize = 72;

/// What stands before the leases.
pub(super) fn above(view: &View, now: Moment, width: usize, look: Look) -> Vec<Line<'static>> {
    let parts = [
        view.nodes.as_ref().map(|part| nodes(view, part, now, width, look)),
        Some(processes(view, now, width, look)),
        view.marks.as_ref().map(|part| marks(view, part, now, width, look)),
    ];
    parts.into_iter().flatten().flatten().collect()
}

/// The heading of the leases, and what is to be said of them.
pub(super) fn leases(
    view: &View,
    now: Moment,
    width: usize,
    look: Look,
) -> (Line<'static>, Vec<Line<'static>>) {
    let part = &view.leases;
    let (mut title, mut faults) = ("LEASES".to_owned(), Vec::new());
    if let Some(told) = part.told() {
        let held = told.all.iter().filter(|lease| lease.is_held).count();
        let few = match told.all.len() - held {
            0 => String::new(),
            few => format!(", {few} on too few nodes!"),
        };
        title = match told.nodes {
            Some((tell, needed, of)) if tell < needed => {
                format!("LEASES  NO MAJORITY ({tell} of {of} tell)")
            }
            Some((tell, _, of)) if tell < of => {
                format!("LEASES  {held} held{few} ({tell} of {of} tell)")
            }
            _ => format!("LEASES  {held} held{few}"),
        };
        // Why others do not stands with the nodes.
        let known = |name: &str| {
            let nodes = view.nodes.as_ref().and_then(Part::told).map_or(&[][..], |it| &it.all);
            let node = nodes.iter().find(|node| node.name == name);
            node.is_some_and(|node| matches!(node.state, State::Closed(_) | State::Silent(_)))
        };
        for (node, fault) in told.faults.iter().filter(|(node, _)| !known(node)) {
            more(&mut faults, &format!("not listed by {node}: {fault}"), width, look.faint());
        }
    }
    let mut lines = headed(view, part, &title, now, width, look);
    lines.append(&mut faults);
    let rest = lines.split_off(1.min(lines.len()));
    (lines.pop().unwrap_or_default(), rest)
}

/// The heading of a part, with its age at the right; and why there is none.
fn headed<T>(
    view: &View,
    part: &Part<T>,
    title: &str,
    now: Moment,
    width: usize,
    look: Look,
) -> Vec<Line<'static>> {
    let (status, style) = status(view, part, now, look);
    let left = fit(title, width.saturating_sub(columns(&status) + 2));
    let title = Span::styled(left, look.head());
    let mut lines = vec![Line::from(vec![title, Span::raw(" "), Span::styled(status, style)])];
    if let Some((_, Err(why))) = part.last() {
        more(&mut lines, why, width, Style::new());
    }
    lines
}

/// How old a part is, or since when there is none.
fn status<T>(view: &View, part: &Part<T>, now: Moment, look: Look) -> (String, Style) {
    match part.last() {
        None => ("asking ...".to_owned(), look.faint()),
        Some((when, _)) if view.is_old(part, now) => {
            (format!("OLD: of {}, {} ago", when.clock(), span(when.age(now))), look.warning())
        }
        Some((when, Ok(_))) => (format!("{} ago", span(when.age(now))), look.faint()),
        Some((when, Err(_))) => {
            let since = part.since().unwrap_or(*when);
            let text = format!("NO ANSWER since {}, {}", since.clock(), span(since.age(now)));
            (text, look.bad())
        }
    }
}

/// A text below, indented, in up to three lines.
fn more(lines: &mut Vec<Line<'static>>, text: &str, width: usize, style: Style) {
    for line in wrapped(text, width.saturating_sub(5), 3) {
        lines.push(Line::styled(format!("    {line}"), style));
    }
}

fn nodes(
    view: &View,
    part: &Part<Nodes>,
    now: Moment,
    width: usize,
    look: Look,
) -> Vec<Line<'static>> {
    let Some(told) = part.told() else { return headed(view, part, "NODES", now, width, look) };
    let (granting, all, needed) = (told.granting(), told.all.len(), told.needed);
    let closed = match told.opens_in {
        _ if granting >= needed => String::new(),
        Some(left) => format!(", NO QUORUM for {}", about(left)),
        None => ", NO QUORUM".to_owned(),
    };
    // What is least worth knowing goes first.
    let needed = if width < NARROW { String::new() } else { format!(", {needed} needed") };
    let title = format!("NODES  {granting} of {all} grant{needed}{closed}");
    let mut lines = headed(view, part, &title, now, width, look);
    let widest = told.all.iter().map(|node| columns(&node.name)).max().unwrap_or(0);
    let name = widest.min(width.saturating_sub(39).max(12));
    for node in &told.all {
        // Nobody knows for how long since then.
        let told = part.last().map_or(now, |(when, _)| *when);
        lines.push(self::node(view, node, name, told, look));
        if let State::Closed(why) | State::Silent(why) = &node.state {
            more(&mut lines, why, width, look.faint());
        }
    }
    lines
}

/// One node, as it stood when it told.
fn node(view: &View, node: &Node, width: usize, told: Moment, look: Look) -> Line<'static> {
    let since = view.since(&node.name).map_or_else(String::new, |since| {
        let (clock, age) = (since.moment.clock(), span(since.moment.age(told)));
        match since.or_before {
            true => format!("  since before {clock}"),
            false => format!("  since {clock}, {age}"),
        }
    });
    let era = node.era.map_or_else(String::new, |era| format!("  era {era}"));
    let counts = node.counts.map_or_else(String::new, |counts| format!("  {counts} counts"));
    let (style, rest) = match &node.state {
        State::Grants => (look.good(), format!("{era}{counts}")),
        State::Quarantined(left) => {
            let left =
                left.map_or_else(|| "for ever".to_owned(), |left| format!("for {}", about(left)));
            (look.warning(), format!("  {left}{era}{counts}"))
        }
        State::Closed(_) | State::Silent(_) => (look.bad(), since),
    };
    Line::from(vec![
        Span::raw(format!("  {}  ", fit(short(&node.name, width), width))),
        Span::styled(node.state.word(), style),
        Span::raw(rest),
    ])
}

/// A name without its scheme, if there is no room for that.
fn short(name: &str, width: usize) -> &str {
    let behind = name.split_once("://").map_or(name, |(_, behind)| behind);
    if columns(name) > width { behind } else { name }
}

fn processes(view: &View, now: Moment, width: usize, look: Look) -> Vec<Line<'static>> {
    if view.processes.is_empty() {
        let text =
            "WAITERS, REFUSALS: only processes know them. Add --metrics http://HOST:PORT of each.";
        let lines = wrapped(text, width, 2).into_iter();
        return lines.map(|line| Line::styled(line, look.faint())).collect();
    }
    let title = fit(&format!("PROCESSES  (+: since {})", view.began.clock()), width);
    let mut lines = vec![Line::styled(title, look.head())];
    for watched in &view.processes {
        let (status, style) = status(view, &watched.part, now, look);
        let told = watched.part.told();
        let counts = told.map_or_else(String::new, |process| counted(watched, process));
        let room = width.saturating_sub(columns(&status) + 4);
        let both = columns(&watched.name) + 2 + columns(&counts) <= room;
        let left = if both { format!("{}  {counts}", watched.name) } else { watched.name.clone() };
        let left = format!("  {} ", fit(&left, room));
        lines.push(Line::from(vec![Span::raw(left), Span::styled(status, style)]));
        if !both {
            more(&mut lines, &counts, width, Style::new());
        }
        match watched.part.last() {
            Some((_, Err(why))) => more(&mut lines, why, width, look.faint()),
            Some((_, Ok(process))) => causes(&mut lines, watched, process, width, look),
            None => {}
        }
    }
    lines
}

fn counted(watched: &Watched, process: &Process) -> String {
    let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), whole);
    let refused = process.refused.iter().filter(|((_, outcome), _)| is_refusal(outcome));
    let (all, new) = refused
        .fold((0.0, 0.0), |(all, new), (cause, count)| (all + count, new + watched.more(cause)));
    let refused = if process.admits { with_new(all, new) } else { "-".to_owned() };
    let (held, waiting, lost) = (of(process.leases), of(process.waiting), of(process.lost));
    format!("{held} held  {waiting} waiting  {lost} lost  {refused} refused")
}

/// Why writes were not let through, and what else is to be said of a process.
fn causes(
    lines: &mut Vec<Line<'static>>,
    watched: &Watched,
    process: &Process,
    width: usize,
    look: Look,
) {
    let counts: Vec<String> = process
        .refused
        .iter()
        .filter(|(_, count)| **count > 0.0)
        .map(|(cause, count)| {
            let (door, outcome) = cause;
            format!("{door} {outcome} {}", with_new(*count, watched.more(cause)))
        })
        .collect();
    if !counts.is_empty() {
        more(lines, &format!("not admitted: {}", counts.join(", ")), width, Style::new());
    }
    if process.is_silent() {
        let text = match process.nodes {
            true => "tells of nodes only, as `fencing exporter` does",
            false => "reports no fencing metrics yet",
        };
        more(lines, text, width, look.faint());
    }
}

fn with_new(all: f64, new: f64) -> String {
    if new > 0.0 { format!("{} (+{})", whole(all), whole(new)) } else { whole(all) }
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn marks(
    view: &View,
    part: &Part<Marks>,
    now: Moment,
    width: usize,
    look: Look,
) -> Vec<Line<'static>> {
    let title = part.told().map_or_else(
        || "MARKS".to_owned(),
        |told| {
            let more = if told.more { " or more" } else { "" };
            let floor = told.floor.map_or_else(String::new, |floor| format!(", floor {floor}"));
            let closed = if told.closed { ", CLOSED: all writes are refused" } else { "" };
            format!("MARKS  {}{more}{floor}{closed}", told.count)
        },
    );
    headed(view, part, &title, now, width, look)
}
