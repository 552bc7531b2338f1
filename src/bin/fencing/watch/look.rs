//! How things are drawn. What a colour says, a word says as well.

use ratatui_core::style::{Color, Modifier, Style};

/// The colours, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) colour: bool,
}

impl Look {
    /// What the environment asks for: see <https://no-color.org>.
    pub(super) fn of_environment() -> Look {
        let no = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
        Look { colour: !no }
    }

    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green, Modifier::empty())
    }

    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow, Modifier::BOLD)
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red, Modifier::BOLD)
    }

    pub(super) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn coloured(self, colour: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self.colour { style.fg(colour) } else { style }
    }
}
