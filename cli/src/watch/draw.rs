//! Draws the picture: a title, nodes, marks, leases and the keys. It asks no server, and reads no clock.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length, Max, Min};
use ratatui::layout::Layout;
use ratatui::style::{Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, Widget};

use super::sources::MAX_MARKS;
use super::view::{MarkList, Moment, Part, View};
use crate::duration::about;
use crate::leases::{LeaseList, LockView};

/// Narrower screens leave out the token of a lease, and since when it is held.
const WITH_TOKEN: u16 = 72;
const WITH_SINCE: u16 = 100;
/// Rows reserved for leases if nodes fill the screen.
const LEASES: u16 = 5;
const LONGEST: usize = 400;

/// Draws the view as it is now, and notes in it what the screen has room for.
pub(super) fn draw(buffer: &mut Buffer, view: &mut View, now: Moment) {
    let (above, head) = ([nodes(view, now), marks(view, now)].concat(), leases(view, now));
    let [lines, head_lines] = [above.len(), head.len()].map(|lines| u16::try_from(lines).unwrap_or(u16::MAX));
    let heights = [Length(1), Max(lines), Length(head_lines), Min(LEASES), Length(1)];
    let [top, above_at, head_at, table_at, bottom] = Layout::vertical(heights).areas(buffer.area);

    let place = format!(" fencing watch  {}  every {:?}", view.place, view.every);
    bar(&place, &format!("{} ", now.clock())).render(top, buffer);
    Paragraph::new(above).render(above_at, buffer);
    Paragraph::new(head).render(head_at, buffer);

    let all = view.leases.answer().map_or(0, |leases| leases.all.len());
    view.page = usize::from(table_at.height.saturating_sub(1));
    // Keys beyond the end do nothing.
    view.first = view.first.min(all.saturating_sub(view.page));
    if let Some(leases) = view.leases.answer().filter(|leases| !leases.all.is_empty()) {
        table_of(view, leases, table_at.width).render(table_at, buffer);
    }
    let shown = format!("{}-{} of {all} ", view.first + 1, (view.first + view.page).min(all));
    let shown = if all > view.page { shown } else { String::new() };
    let keys = match view.paused {
        None => " q quit  p pause  arrows PgUp PgDn scroll".to_owned(),
        Some(since) => format!(" PAUSED since {}  p resumes  q quit", since.clock()),
    };
    bar(&keys, &shown).render(bottom, buffer);
}

fn bar(left: &str, right: &str) -> Block<'static> {
    let (left, right) = (Line::raw(plain(left)), Line::raw(plain(right)).right_aligned());
    Block::new().reversed().title_top(left).title_top(right)
}

fn heading<T>(view: &View, part: &Part<T>, title: &str, now: Moment) -> Vec<Line<'static>> {
    let ago = |when: &Moment| about(when.age(now));
    let status = match part {
        Part::Absent => return Vec::new(),
        Part::Asking => Span::raw("asking ...").dim(),
        // A newer answer should have come by now.
        Part::Answered { at, .. } if at.age(now) > view.fresh => {
            Span::raw(format!("OLD: from {}, {} ago", at.clock(), ago(at))).yellow()
        }
        Part::Answered { at, answer: Ok(_), .. } => Span::raw(format!("{} ago", ago(at))).dim(),
        Part::Answered { since, .. } => Span::raw(format!("NO ANSWER since {}, {}", since.clock(), ago(since))).red(),
    };
    let mut lines = vec![vec![title.to_owned().bold(), "  ".into(), status].into()];
    if let Part::Answered { answer: Err(why), .. } = part {
        lines.push(indented(why));
    }
    lines
}

fn indented(text: &str) -> Line<'static> {
    Line::raw(format!("    {}", plain(text)))
}

fn nodes(view: &View, now: Moment) -> Vec<Line<'static>> {
    let Part::Answered { at: seen, answer: Ok(found), .. } = &view.nodes else {
        return heading(view, &view.nodes, "NODES", now);
    };
    let (granting, all, needed) = (found.granting(), found.nodes.len(), found.needed());
    let quorum = match found.opens_in() {
        _ if granting >= needed => String::new(),
        Some(left) => format!(", NO QUORUM for {}", about(left)),
        None => ", NO QUORUM".to_owned(),
    };
    let title = format!("NODES  {granting} of {all} grant, {needed} needed{quorum}");
    let mut lines = heading(view, &view.nodes, &title, now);
    let widest = found.nodes.iter().map(|node| node.node.len()).max().unwrap_or(0);
    for finding in &found.nodes {
        let Some((state, since)) = view.states.get(&finding.node) else { continue };
        let known = finding.report.as_ref().map_or_else(String::new, |report| {
            let era = report.era.map_or_else(String::new, |era| format!("  era {era}"));
            format!("{era}  {} counts", report.counts)
        });
        let (state, rest) = match (&finding.problem, finding.quarantine()) {
            (None, _) => (state.green(), known),
            (_, Some(Duration::MAX)) => (state.yellow(), format!("  for ever{known}")),
            (_, Some(left)) => (state.yellow(), format!("  {} left{known}", about(left))),
            // Its state after its answer is unknown.
            _ => (state.red(), format!("  for {}", about(since.age(*seen)))),
        };
        let name = format!("  {:widest$}  ", plain(&finding.node));
        lines.push(vec![name.into(), state, rest.into()].into());
        lines.extend(finding.to_mend().map(|fault| indented(&fault.to_string()).dim()));
    }
    lines
}

fn marks(view: &View, now: Moment) -> Vec<Line<'static>> {
    let title = view.marks.answer().map_or_else(
        || "MARKS".to_owned(),
        |MarkList { count, floor, closed, .. }| {
            let more = if *count == u64::from(MAX_MARKS) { " or more" } else { "" };
            let floor = floor.map_or_else(String::new, |floor| format!(", floor {floor}"));
            let closed = if *closed { ", CLOSED: all writes are refused" } else { "" };
            format!("MARKS  {count}{more}{floor}{closed}")
        },
    );
    heading(view, &view.marks, &title, now)
}

fn leases(view: &View, now: Moment) -> Vec<Line<'static>> {
    let part = &view.leases;
    let Some(LeaseList { all, turnout, faults }) = part.answer() else { return heading(view, part, "LEASES", now) };
    let held = all.iter().filter(|lease| lease.held == Some(true)).count();
    let few = match all.len() - held {
        0 => String::new(),
        few => format!(", {few} on too few nodes!"),
    };
    let partial = turnout.filter(|it| it.answered < it.size);
    let answered = partial.map_or_else(String::new, |it| format!(" ({} of {} answered)", it.answered, it.size));
    let title = match (partial, turnout) {
        (Some(it), _) if it.answered < it.needed => format!("LEASES  NO MAJORITY{answered}"),
        // A lock that the others have forgotten may be held.
        (_, Some(it)) if it.remember < it.needed => {
            format!("LEASES  {} listed{answered}; {} of {} nodes remember", all.len(), it.remember, it.size)
        }
        _ => format!("LEASES  {held} held{few}{answered}"),
    };
    // The nodes above say why they did not answer at all.
    let granting = |node: &str| {
        let mut found = view.nodes.answer().into_iter().flat_map(|found| &found.nodes);
        found.any(|found| found.node == node && found.is_admitted())
    };
    let faults = faults.iter().filter(|(node, _)| granting(node));
    let faults = faults.map(|(node, fault)| indented(&format!("not listed by {node}: {fault}")));
    heading(view, part, &title, now).into_iter().chain(faults).collect()
}

fn table_of(view: &View, leases: &LeaseList, width: u16) -> Table<'static> {
    let columns = [
        ("RESOURCE", true, Fill(3)),
        ("HOLDER", true, Fill(2)),
        ("SINCE", width >= WITH_SINCE, Length(20)),
        ("ENDS IN", true, Length(10)),
        ("TOKEN", width >= WITH_TOKEN, Length(16)),
        ("NODES", leases.turnout.is_some(), Length(5)),
        ("MARK", !matches!(view.marks, Part::Absent), Length(5)),
    ];
    let row = |lease: &LockView| {
        let cells = cells(lease, leases, view.marks.answer());
        Row::new(cells.into_iter().zip(&columns).filter(|(_, it)| it.1).map(|(cell, _)| cell))
    };
    let heads = columns.iter().filter(|it| it.1).map(|(head, ..)| Cell::from(*head));
    let widths = columns.iter().filter(|it| it.1).map(|(.., width)| *width);
    let shown = leases.all.iter().skip(view.first).take(view.page);
    Table::new(shown.map(row).collect::<Vec<_>>(), widths)
        .header(Row::new(heads).style(Style::new().dim()))
        .column_spacing(1)
}

fn cells(lease: &LockView, leases: &LeaseList, marks: Option<&MarkList>) -> [Cell<'static>; 7] {
    let [resource, holder, since, ends, token] = lease.columns().map(|text| Cell::from(plain(&text)));
    let on = lease.nodes.zip(leases.turnout).map(|(on, turnout)| format!("{on}/{}", turnout.size));
    let nodes = match on {
        Some(on) if lease.held == Some(true) => Cell::from(on),
        Some(on) => Cell::from(format!("{on}!")).yellow(),
        None => Cell::default(),
    };
    let mark = match (lease.token, marks.and_then(|marks| marks.of.get(&lease.resource))) {
        (_, None) => Cell::default(),
        (_, Some(None)) => Cell::from("none"),
        (None, Some(Some(_))) => Cell::from("-"),
        // The storage has seen a newer token: this holder's writes are refused.
        (Some(token), Some(Some(mark))) if *mark > token => Cell::from("NEWER").red(),
        (Some(token), Some(Some(mark))) if *mark == token => Cell::from("same"),
        _ => Cell::from("older"),
    };
    [resource, holder, since, ends, token, nodes, mark]
}

/// Replaces what a terminal obeys in a text of others, and what reorders or hides the text around it.
pub(super) fn plain(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().take(LONGEST).map(|c| if obeyed(c) { '\u{fffd}' } else { c }).collect()
}
