use std::str::FromStr;

use sqlx::{ColumnIndex, Decode, Row};

/// A row whose columns are read as texts.
#[derive(Debug, Default)]
pub struct TextRow(Vec<Option<String>>);

impl TextRow {
    pub(super) fn read<'r, R: Row>(row: &'r R) -> sqlx::Result<TextRow>
    where
        usize: ColumnIndex<R>,
        Option<String>: Decode<'r, R::Database>,
    {
        Ok(TextRow((0..row.len()).map(|at| row.try_get_unchecked(at)).collect::<Result<_, _>>()?))
    }

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
