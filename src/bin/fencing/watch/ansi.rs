//! Writes what has changed on the screen.

use std::io::{self, BufWriter, Write};

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier, Style};

/// A terminal that understands the sequences of ECMA-48, as all do that are in use.
pub(super) struct Ansi<W: Write> {
    out: BufWriter<W>,
    size: fn() -> io::Result<Size>,
}

impl<W: Write> Ansi<W> {
    pub(super) fn new(out: W, size: fn() -> io::Result<Size>) -> Ansi<W> {
        Ansi { out: BufWriter::with_capacity(1 << 16, out), size }
    }
}

impl<W: Write> Backend for Ansi<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, cells: I) -> io::Result<()> {
        let (mut last, mut style) = (None, None);
        for (x, y, cell) in cells {
            // Behind a wide character the cursor stands two columns on.
            if last.and_then(|(x, y): (u16, u16)| Some((x.checked_add(1)?, y))) != Some((x, y)) {
                self.set_cursor_position((x, y))?;
            }
            last = Some((x, y));
            if style != Some(cell.style()) {
                style = Some(cell.style());
                self.out.write_all(sequence(cell.style()).as_bytes())?;
            }
            // Whatever has come so far: a terminal would obey it.
            let symbol = cell.symbol();
            let harmless = !symbol.chars().any(char::is_control);
            self.out.write_all(if harmless { symbol } else { "?" }.as_bytes())?;
        }
        self.out.write_all(b"\x1b[0m")
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[?25l")
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[?25h")
    }

    /// The view has no cursor.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.out, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.out.write_all(match region {
            ClearType::All => b"\x1b[2J",
            ClearType::AfterCursor => b"\x1b[0J",
            ClearType::BeforeCursor => b"\x1b[1J",
            ClearType::CurrentLine => b"\x1b[2K",
            ClearType::UntilNewLine => b"\x1b[0K",
        })
    }

    fn size(&self) -> io::Result<Size> {
        (self.size)()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::default() })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What sets this style, whatever was set before.
fn sequence(style: Style) -> String {
    let mut text = String::from("\x1b[0");
    for (modifier, code) in
        [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")]
    {
        if style.add_modifier.contains(modifier) {
            text.push_str(code);
        }
    }
    text.push_str(match style.fg {
        Some(Color::Red) => ";31",
        Some(Color::Green) => ";32",
        Some(Color::Yellow) => ";33",
        _ => "",
    });
    text.push('m');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cells: &[(u16, u16, Cell)]) -> String {
        let size = || Ok(Size::new(80, 24));
        let mut ansi = Ansi::new(Vec::new(), size);
        ansi.draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell))).unwrap();
        String::from_utf8(ansi.out.into_inner().unwrap()).unwrap()
    }

    fn cell(symbol: &str, style: Style) -> Cell {
        let mut cell = Cell::default();
        cell.set_symbol(symbol).set_style(style);
        cell
    }

    #[test]
    fn cells_are_written_where_they_stand() {
        let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        let cells =
            [(3, 1, cell("a", red)), (4, 1, cell("b", red)), (6, 1, cell("c", Style::new()))];
        assert_eq!(written(&cells), "\x1b[2;4H\x1b[0;1;31mab\x1b[2;7H\x1b[0mc\x1b[0m");
    }

    #[test]
    fn nothing_in_a_cell_is_obeyed() {
        for symbol in ["\x1b[2J", "\r", "\u{9b}2J", "a\x07"] {
            assert_eq!(written(&[(0, 0, cell(symbol, Style::new()))]), "\x1b[1;1H\x1b[0m?\x1b[0m");
        }
    }
}
