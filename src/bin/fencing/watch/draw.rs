//! The picture: a title, what is told, and the keys.

use std::ops::Range;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::look::Look;
use super::moment::{Moment, span};
use super::parts;
use super::plain::{columns, fit};
use super::table::Columns;
use super::told::Leases;
use super::view::View;

/// What of the view stands on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    /// How many lines stand above the screen.
    pub(super) offset: usize,
    /// How many the screen shows.
    pub(super) page: usize,
    /// Which of the leases.
    pub(super) leases: Range<usize>,
}

/// Draws the view as it is now.
pub(super) fn draw(buffer: &mut Buffer, view: &View, now: Moment, look: Look) -> Shown {
    let Rect { width, height, .. } = buffer.area;
    let (wide, page) = (usize::from(width), usize::from(height.saturating_sub(2)));
    let none = Leases::default();
    let leases = view.leases.told().unwrap_or(&none);
    let marks = view.marks.as_ref().and_then(|part| part.told());
    let table = Columns::new(leases, marks.is_some(), wide);

    let mut lines = parts::above(view, now, wide, look);
    let heading = lines.len();
    let (title_of_leases, more) = parts::leases(view, now, wide, look);
    let mut pinned = vec![title_of_leases];
    lines.extend(pinned.clone().into_iter().chain(more));
    if !leases.all.is_empty() {
        pinned.push(table.head(look));
        lines.push(table.head(look));
    }
    let total = lines.len() + leases.all.len();
    let offset = view.offset.min(total.saturating_sub(page));
    // What names the columns stays on the screen when it would scroll away.
    if offset <= heading {
        pinned.clear();
    }
    let from = offset + pinned.len();
    let first = from.saturating_sub(lines.len());
    let last = (offset + page).saturating_sub(lines.len()).min(leases.all.len()).max(first);
    let rows = leases.all.get(first..last).unwrap_or_default().iter();
    let rows = rows.map(|lease| table.row(lease, leases, marks, look));
    let body = pinned.into_iter().chain(lines.into_iter().skip(from)).chain(rows);

    put(buffer, 0, &title(view, now, wide), look.bar());
    for (y, line) in (1..height.saturating_sub(1)).zip(body) {
        put(buffer, y, &line, Style::new());
    }
    let last_line = height.saturating_sub(1).max(1);
    put(buffer, last_line, &keys(view, now, wide, offset, page, total), look.bar());
    Shown { offset, page, leases: first..last }
}

fn put(buffer: &mut Buffer, y: u16, line: &Line<'_>, style: Style) {
    let Rect { width, height, .. } = buffer.area;
    if y >= height {
        return;
    }
    buffer.set_style(Rect::new(0, y, width, 1), style);
    buffer.set_line(0, y, line, width);
}

fn title(view: &View, now: Moment, width: usize) -> Line<'static> {
    let asked = &view.asked;
    let form = match asked.resource.as_str() {
        "*" => String::new(),
        form => format!("  {form}"),
    };
    let every = crate::duration::show(asked.every);
    let right = format!("{} ", now.clock());
    let left = format!(" fencing watch  {}{form}  every {every}", asked.place);
    let left = fit(&left, width.saturating_sub(columns(&right) + 1));
    Line::raw(format!("{left} {right}"))
}

fn keys(
    view: &View,
    now: Moment,
    width: usize,
    offset: usize,
    page: usize,
    total: usize,
) -> Line<'static> {
    let place = match total > page {
        true => format!("{}-{} of {total} ", offset + 1, (offset + page).min(total)),
        false => String::new(),
    };
    let left = match view.paused {
        None => " q quit  p pause  arrows PgUp PgDn scroll".to_owned(),
        Some(since) => {
            let (clock, age) = (since.clock(), span(since.age(now)));
            format!(" PAUSED since {clock}, {age}  p goes on  q quit")
        }
    };
    let left = fit(&left, width.saturating_sub(columns(&place) + 1));
    Line::from(Span::raw(format!("{left} {place}")))
}
