use std::str::FromStr;

/// A row whose columns are read as texts.
#[derive(Debug, Default)]
pub struct TextRow(pub(in crate::database) Vec<Option<String>>);

impl TextRow {
    /// Returns nothing where the column is NULL.
    pub fn text(&self, column: usize) -> Option<&str> {
        self.0.get(column)?.as_deref()
    }

    pub fn owned(&self, column: usize) -> Option<String> {
        self.text(column).map(str::to_owned)
    }

    pub fn number<T: FromStr>(&self, column: usize) -> Option<T> {
        self.text(column)?.parse().ok()
    }

    pub fn is_true(&self, column: usize) -> bool {
        matches!(self.text(column), Some("t" | "1"))
    }

    /// Reads hexadecimal digits.
    pub fn bytes(&self, column: usize) -> Option<Vec<u8>> {
        hex::decode(self.text(column)?).ok()
    }
}
