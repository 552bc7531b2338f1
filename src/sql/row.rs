//! The token beside the data: a column `fence_token` that the write itself compares.
//!
//! ```sql
//! ALTER TABLE files ADD COLUMN fence_token BIGINT NOT NULL DEFAULT 0;
//! UPDATE files SET body = ?, fence_token = 34 WHERE path = ? AND fence_token <= 34;
//! ```
//!
//! This is one statement. It needs no other table and no transaction. If it reports a row, the row
//! is written. If not, read the row: [`Outcome::of`] has the result.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")]
//! # async fn write(
//! #     pool: sqlx::PgPool, resource: fencing::Resource, token: fencing::Token,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use fencing::sql::row::{self, Outcome};
//! use sqlx::{Postgres, QueryBuilder};
//!
//! let mut update = QueryBuilder::<Postgres>::new("UPDATE files SET body = ");
//! row::set(update.push_bind("new").push(", "), token);
//! row::unless_newer(update.push(" WHERE path = ").push_bind("a").push(" AND "), token);
//! let matched = update.build().execute(&pool).await?.rows_affected();
//! let outcome = Outcome::of(&resource, token, matched, async || {
//!     let look = sqlx::query_scalar("SELECT fence_token FROM files WHERE path = $1");
//!     look.bind("a").fetch_optional(&pool).await
//! });
//! match outcome.await? {
//!     Outcome::Done => {}
//!     Outcome::Stale(stale) => return Err(stale.into()),
//!     Outcome::Missing => println!("no such file"),
//!     Outcome::Unmatched => println!("another condition did not hold"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Fencing.** It guards the rows written in this way, each separately. Nothing refuses a stale INSERT of a row that
//! does not exist or was deleted: mark rows as deleted instead. A new holder that only reads seals nothing, unless it
//! writes its token before it reads: `UPDATE files SET fence_token = 34 WHERE path = ? AND fence_token <= 34`.

use fencing_protocol::{Resource, Token};
use sqlx::{Database, Encode, QueryBuilder, Type};

use crate::fence::Stale;

/// Pushes `fence_token = <token>`, for the list after SET.
pub fn set<DB: Database>(query: &mut QueryBuilder<DB>, token: Token) -> &mut QueryBuilder<DB>
where
    i64: for<'q> Encode<'q, DB> + Type<DB>,
{
    query.push("fence_token = ").push_bind(i64::from(token))
}

/// Pushes `fence_token <= <token>`, for the condition after WHERE.
pub fn unless_newer<DB: Database>(query: &mut QueryBuilder<DB>, token: Token) -> &mut QueryBuilder<DB>
where
    i64: for<'q> Encode<'q, DB> + Type<DB>,
{
    query.push("fence_token <= ").push_bind(i64::from(token))
}

/// The result of a guarded write to one row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the write may have been refused"]
pub enum Outcome {
    /// The row is written.
    Done,
    /// A newer token has written it.
    Stale(Stale),
    /// There is no such row.
    Missing,
    /// The row is there, and no newer token has written it: another condition did not hold,
    /// its `fence_token` is not a token, or the row has changed since.
    Unmatched,
}

impl Outcome {
    /// Returns the result of the write. `matched` is the number of rows that the UPDATE
    /// reported. `look` reads the row's `fence_token`; it runs only if no row was reported.
    ///
    /// If the database counts changed rows instead of matched ones (MySQL without `CLIENT_FOUND_ROWS`, which `sqlx`
    /// sets), a row that had all of its values before is not reported. So the write is done if the row has this token,
    /// even if that token wrote it before in another way and another condition does not hold now.
    ///
    /// # Errors
    /// Those of `look`.
    pub async fn of<E>(
        resource: &Resource,
        token: Token,
        matched: u64,
        look: impl AsyncFnOnce() -> Result<Option<Option<i64>>, E>,
    ) -> Result<Outcome, E> {
        if matched > 0 {
            return Ok(Outcome::Done);
        }
        let Some(found) = look().await? else { return Ok(Outcome::Missing) };
        let found = found.and_then(|number| Token::try_from(number).ok());
        Ok(match Stale::check(resource, token, found) {
            Err(stale) => Outcome::Stale(stale),
            Ok(()) if found == Some(token) => Outcome::Done,
            Ok(()) => Outcome::Unmatched,
        })
    }
}
