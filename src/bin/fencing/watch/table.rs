//! The columns of the leases.

use ratatui_core::text::{Line, Span};

use super::look::Look;
use super::plain::{columns, fit};
use super::told::{Lease, Leases, Marks};
use crate::duration::about;

/// The least that is left for resource and holder, before another column goes.
const NAMES: usize = 28;
/// From this width on, the whole time stands in its column.
const WIDE: usize = 110;

/// Which columns there are, and how wide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    resource: usize,
    holder: usize,
    since: usize,
    ends: usize,
    token: usize,
    nodes: usize,
    mark: usize,
}

impl Columns {
    pub(super) fn new(leases: &Leases, marks: bool, width: usize) -> Columns {
        let widest = |text: &dyn Fn(&Lease) -> usize, least: usize| {
            leases.all.iter().map(text).max().unwrap_or(0).max(least)
        };
        let token = |lease: &Lease| lease.token.map_or(0, |token| token.to_string().len());
        let mut found = Columns {
            resource: widest(&|lease| columns(lease.resource.as_str()), 8),
            holder: widest(&|lease| columns(&holder(lease)), 6),
            since: if width >= WIDE { 20 } else { 14 },
            ends: 7,
            token: widest(&token, 5),
            nodes: leases.nodes.map_or(0, |_| 5),
            mark: if marks { 5 } else { 0 },
        };
        // On a narrow screen these go, in this order.
        let names = NAMES.min(found.resource + found.holder);
        for dropped in [0, 1, 2] {
            if found.room(width) >= names {
                break;
            }
            match dropped {
                0 => found.since = 0,
                1 => found.token = 0,
                _ => found.mark = 0,
            }
        }
        let room = found.room(width);
        if found.resource + found.holder > room {
            found.holder = found.holder.min((room / 2).max(room.saturating_sub(found.resource)));
            found.resource = found.resource.min(room.saturating_sub(found.holder));
        }
        found
    }

    /// What the others leave for resource and holder.
    fn room(&self, width: usize) -> usize {
        let others = [self.since, self.ends, self.token, self.nodes, self.mark];
        let taken: usize = others.iter().filter(|it| **it > 0).map(|it| it + 1).sum();
        width.saturating_sub(taken + 2)
    }

    /// Puts one text into each column.
    fn put(&self, texts: [&str; 7]) -> [String; 7] {
        let widths =
            [self.resource, self.holder, self.since, self.ends, self.token, self.nodes, self.mark];
        let mut cells = widths.iter().zip(texts);
        std::array::from_fn(|_| match cells.next() {
            None | Some((0, _)) => String::new(),
            Some((width, text)) => format!(" {}", fit(text, *width)),
        })
    }

    pub(super) fn head(&self, look: Look) -> Line<'static> {
        let texts = ["RESOURCE", "HOLDER", "SINCE", "ENDS IN", "TOKEN", "NODES", "MARK"];
        Line::styled(self.put(texts).concat(), look.faint())
    }

    /// One lease.
    pub(super) fn row(
        &self,
        lease: &Lease,
        leases: &Leases,
        marks: Option<&Marks>,
        look: Look,
    ) -> Line<'static> {
        let none = || "-".to_owned();
        let since = lease.since.as_deref().map_or_else(none, |since| self.time(since));
        let ends = lease.remaining.map_or_else(|| "never".into(), about);
        let token = lease.token.map_or_else(none, |token| token.to_string());
        let nodes = match (lease.nodes, leases.nodes) {
            (Some(on), Some((_, _, of))) if lease.is_held => format!("{on}/{of}"),
            (Some(on), Some((_, _, of))) => format!("{on}/{of}!"),
            _ => String::new(),
        };
        let mark = marks.map_or("", |marks| mark(lease, marks));
        let holder = holder(lease);
        let texts = [lease.resource.as_str(), &holder, &since, &ends, &token, &nodes, mark];
        let [resource, holder, since, ends, token, nodes, mark_cell] = self.put(texts);
        let on_few = if lease.is_held { look.plain() } else { look.warning() };
        let newer = if mark == NEWER { look.bad() } else { look.plain() };
        Line::from(vec![
            Span::raw([resource, holder, since, ends, token].concat()),
            Span::styled(nodes, on_few),
            Span::styled(mark_cell, newer),
        ])
    }

    /// Day and time, with the year if there is room.
    fn time(&self, since: &str) -> String {
        match self.since >= since.len() {
            true => since.to_owned(),
            false => since.get(5..19).unwrap_or(since).replace('T', " "),
        }
    }
}

/// What the column says where the storage has seen a newer token.
const NEWER: &str = "NEWER";

/// How the mark of the resource stands to the token of the lease.
fn mark(lease: &Lease, marks: &Marks) -> &'static str {
    match (lease.token, marks.of.get(&lease.resource)) {
        (_, None) => "",
        (_, Some(None)) => "none",
        (None, Some(Some(_))) => "-",
        (Some(token), Some(Some(mark))) if *mark > token => NEWER,
        (Some(token), Some(Some(mark))) if *mark == token => "same",
        _ => "older",
    }
}

fn holder(lease: &Lease) -> String {
    let name = lease.holder.as_deref().unwrap_or("-");
    if lease.shared { format!("{name} (shared)") } else { name.to_owned() }
}
