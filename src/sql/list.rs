use fencing_protocol::{Resource, Token};
use sqlx::Pool;

use super::AdmitError;
use crate::database::Database;

/// One row of the table of marks, as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// The bytes of the name. They should be those of a [`Resource`], but may be anything.
    pub name: Vec<u8>,
    /// The number. It should be that of a [`Token`], but may be anything.
    pub number: Option<i64>,
}

impl Mark {
    /// Returns the resource and its mark, if both are valid.
    #[must_use]
    pub fn parse(&self) -> Option<(Resource, Token)> {
        let name = std::str::from_utf8(&self.name).ok()?;
        Some((Resource::new(name).ok()?, Token::try_from(self.number?).ok()?))
    }
}

/// Reads the marks whose names come after `after`, up to `limit` of them, ordered by the bytes
/// of their names. For operators: start with `&[]` and go on with the last name.
///
/// **Fencing.** None, as for [`highest`](super::highest()).
///
/// # Errors
/// As for [`highest`](super::highest()).
///
/// # Cancel safety
/// It changes nothing.
pub async fn marks<DB: Database>(
    pool: &Pool<DB>,
    after: &[u8],
    limit: u32,
) -> Result<Vec<Mark>, AdmitError> {
    let mut conn = pool.acquire().await?;
    let rows = DB::list(&mut conn, after, limit).await?;
    Ok(rows.into_iter().map(|(name, number)| Mark { name, number }).collect())
}
