//! The token beside the data: a column `fence_token` that the write itself compares.
//!
//! ```sql
//! ALTER TABLE files ADD COLUMN fence_token BIGINT NOT NULL DEFAULT 0;
//! UPDATE files SET body = ?, fence_token = 34 WHERE path = ? AND fence_token <= 34;
//! ```
//!
//! One statement, no other table, and it needs no transaction. One row that matched is
//! done. If none did, look at the row: [`Outcome::of`] tells what it was.
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
//! **Fencing.** It guards the rows that are written in this way, each by itself. There is
//! nothing to refuse a stale INSERT of a row that is not there, or one that was deleted
//! (mark it as deleted instead); and a new holder that only reads seals nothing, unless it
//! writes its token: `UPDATE files SET fence_token = 34 WHERE path = ? AND fence_token <=
//! 34`, before it reads.

use sqlx::{Database, Encode, QueryBuilder, Type};

use crate::fence::Stale;
use crate::resource::Resource;
use crate::token::Token;

/// Pushes `fence_token = <token>`, for the list after SET.
pub fn set<DB>(query: &mut QueryBuilder<DB>, token: Token) -> &mut QueryBuilder<DB>
where
    DB: Database,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
{
    query.push("fence_token = ").push_bind(i64::from(token))
}

/// Pushes `fence_token <= <token>`, for the condition after WHERE.
pub fn unless_newer<DB>(query: &mut QueryBuilder<DB>, token: Token) -> &mut QueryBuilder<DB>
where
    DB: Database,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
{
    query.push("fence_token <= ").push_bind(i64::from(token))
}

/// What became of a guarded write to one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The row is written.
    Done,
    /// A newer token has written it.
    Stale(Stale),
    /// There is no such row.
    Missing,
    /// The row is there and no newer token was: some other condition did not hold, its
    /// `fence_token` is NULL, or the row has changed since.
    Unmatched,
}

impl Outcome {
    /// Tells how it went. `matched` is what the database reported of the UPDATE; `look`
    /// reads the row's `fence_token`, and is called only where no row was reported.
    ///
    /// A row that had all of its values before is not reported where the database counts
    /// changed rows, as MySQL does without `CLIENT_FOUND_ROWS`: it is done if the row has
    /// this token. So is, then, one that the same token has written in another way before
    /// and whose other conditions do not hold now. (`sqlx` has matched rows counted.)
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
        Ok(match look().await? {
            None => Outcome::Missing,
            Some(found) => match found.and_then(|number| Token::try_from(number).ok()) {
                Some(found) if found == token => Outcome::Done,
                Some(highest) if highest > token => {
                    Outcome::Stale(Stale { resource: resource.clone(), presented: token, highest })
                }
                _ => Outcome::Unmatched,
            },
        })
    }
}
