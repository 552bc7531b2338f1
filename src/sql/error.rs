use std::error::Error;
use std::iter::successors;

use fencing_protocol::{Resource, Token};

use crate::database::{Meaning, is_conflict, meaning, text};
use crate::fence::{FenceError, Stale};

/// Why a fenced transaction failed: at its admission, a statement, or its commit. After any of these, roll it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// The mark is higher. It does not help to run the transaction again.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// A conflict with another transaction: a serialization failure, a deadlock, a lock that did not become free in
    /// time. This says nothing about the token. Roll back and run the whole transaction again.
    #[error("conflict with another transaction: roll back and run it again: {}", text(.0))]
    Retryable(#[source] sqlx::Error),
    /// The table holds something that is not a valid token, such as a value changed by
    /// hand. No token is admitted to this resource until it is corrected.
    #[error("the mark of {resource} is not a valid token; correct it by hand: {source}")]
    Corrupt {
        /// Whose mark it is.
        resource: Resource,
        /// Its fault.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A table or function of the fence is missing.
    #[error(
        "a table or function of the fence is missing: run fencing::sql::migrate or `fencing \
         db migrate`, which creates it, or says that marks are lost: {}",
        text(.0)
    )]
    NotMigrated(#[source] sqlx::Error),
    /// A protected table was written, and the transaction has not presented a token.
    #[error("no token was presented for a protected table: call fencing::sql::present first: {}", text(.0))]
    Unpresented(#[source] sqlx::Error),
    /// A statement of the transaction failed, be it yours or the admission, or the database could not be reached.
    #[error("the transaction failed: {}", text(.0))]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for AdmitError {
    /// Classifies an error of any statement: the transaction's writes and commit fail for the same reasons as `admit`.
    fn from(error: sqlx::Error) -> AdmitError {
        match meaning(&error) {
            Some(Meaning::Stale) => match refusal(&error) {
                Some(stale) => AdmitError::Stale(stale),
                None => AdmitError::Database(error),
            },
            Some(Meaning::Conflict | Meaning::RaiseFirst) => AdmitError::Retryable(error),
            Some(Meaning::Unpresented) => AdmitError::Unpresented(error),
            Some(Meaning::NotMigrated) => AdmitError::NotMigrated(error),
            _ => AdmitError::Database(error),
        }
    }
}

/// So a handler behind the tower layer can answer the errors of a transaction with `?`.
impl From<AdmitError> for FenceError {
    fn from(error: AdmitError) -> FenceError {
        match error {
            AdmitError::Stale(stale) => FenceError::Stale(stale),
            error @ AdmitError::Retryable(_) => FenceError::Conflict(Box::new(error)),
            error @ AdmitError::Database(sqlx::Error::PoolTimedOut) => FenceError::NoConnection(Box::new(error)),
            error @ AdmitError::NotMigrated(_) => FenceError::NotSetUp(Box::new(error)),
            error => FenceError::Unreachable(Box::new(error)),
        }
    }
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> FenceError {
        AdmitError::from(error).into()
    }
}

impl AdmitError {
    /// Reads the error of an admission of this token to this resource: the message of a procedure may have been cut.
    pub(super) fn of(resource: &Resource, token: Token, error: sqlx::Error) -> AdmitError {
        let is_undecoded = matches!(error, sqlx::Error::ColumnDecode { .. });
        if is_undecoded || meaning(&error) == Some(Meaning::Corrupt) {
            return AdmitError::corrupt(resource, error);
        }
        match error.into() {
            AdmitError::Stale(Stale { highest, .. }) => {
                AdmitError::Stale(Stale { resource: resource.clone(), presented: token, highest })
            }
            error => error,
        }
    }

    pub(super) fn corrupt(resource: &Resource, source: impl Into<Box<dyn Error + Send + Sync>>) -> AdmitError {
        AdmitError::Corrupt { resource: resource.clone(), source: source.into() }
    }

    pub(super) fn label(&self) -> &'static str {
        match self {
            AdmitError::Stale(_) => "stale",
            AdmitError::Retryable(_) => "retryable",
            AdmitError::Corrupt { .. } => "corrupt",
            AdmitError::NotMigrated(_) => "not_migrated",
            AdmitError::Unpresented(_) => "unpresented",
            AdmitError::Database(_) => "unreachable",
        }
    }
}

/// Returns the refusal, if the error says that this token of this resource is stale. Use it for
/// transactions of other libraries than `sqlx` ([`statement`](super::statement)). It reads the text of the error and of
/// its sources, so it works with any library that repeats what the database said.
pub fn stale(error: &(dyn Error + 'static), resource: &Resource, presented: Token) -> Option<Stale> {
    successors(Some(error), |error| (**error).source())
        .find_map(|error| Stale::check(resource, presented, high_water(&error.to_string(), resource, presented)).err())
}

/// What to do first, and what at the end, if `fencing_leases` is lost.
const STOP_CLIENTS: &str = "stop all clients, ";
const RAISE_FLOOR: &str = ", then run `fencing db marks raise-floor --yes` (otherwise lost tokens are granted again), and \
                           start the clients";

/// Why the tables were not brought up to date. Nothing changed, unless it says so; on MySQL, part may have been done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Another session kept the database locked for too long.
    #[error("another session kept the database locked; try again: {0}")]
    Locked(#[source] Box<dyn Error + Send + Sync>),
    /// The tables of the fence are not there, or not up to date: only [`check`](super::check) says so.
    #[error("the tables of the fence are missing or out of date: run `fencing db migrate`")]
    Missing,
    /// The table of the marks or of the floor is lost. If it were created again, stale tokens would pass.
    #[error(
        "the database has lost {what}, which says which tokens are stale. Stop all writers. Then \
         restore it, or create it by the SQL that `fencing db migrate --print` prints. Then raise the marks above all \
         tokens that were granted (`fencing db marks raise`). If all leases are in this database, raise the floor as \
         well (`fencing db marks raise-floor`): it stands for marks that are missing, not for old ones that were \
         restored. Only then start the writers"
    )]
    MarksLost {
        /// The names of the tables.
        what: String,
    },
    /// The migrations were applied, and other tables, functions, procedures or triggers are lost, or look for the marks
    /// in another schema. On MySQL this is also the error of a user without EXECUTE on any of the procedures.
    #[error(
        "the database has lost {what}, or this user has no right to see them: check as the owner of the tables first. \
         If they are missing for the owner as well, {}run DELETE FROM _fencing_migrations, migrate again, which \
         creates them and changes no mark, and give all rights again{}. A dump may have left them out: mysqldump needs \
         --routines and --triggers",
        if .what.contains("fencing_leases") { STOP_CLIENTS } else { "" },
        if .what.contains("fencing_leases") { RAISE_FLOOR } else { "" }
    )]
    Lost {
        /// Their names.
        what: String,
    },
    /// A migration was applied with another text, as by a build between two releases.
    #[error(
        "the text of migration {0} differs from the one that was applied. Run DELETE FROM _fencing_migrations and \
         migrate again: that applies all migrations again and changes no mark. Then give all rights again"
    )]
    Changed(i64),
    /// The tables are up to date, but guard nothing: several servers of a cluster take writes, or a table was altered,
    /// and its engine has no transactions (MySQL), or it is not logged (PostgreSQL). It says what to do.
    #[error("the fence does not hold in this database: {0}")]
    Unguarded(String),
    /// A migration failed.
    #[error("migration failed: {0}")]
    Migration(#[source] sqlx::migrate::MigrateError),
    /// The database failed, or could not be reached.
    #[error("the migrations could not be checked or applied: {}", text(.0))]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> MigrateError {
        if is_conflict(&error) { MigrateError::Locked(error.into()) } else { MigrateError::Database(error) }
    }
}

impl From<sqlx::migrate::MigrateError> for MigrateError {
    fn from(error: sqlx::migrate::MigrateError) -> MigrateError {
        use sqlx::migrate::MigrateError as Failure;
        match error {
            Failure::Execute(error) => error.into(),
            Failure::ExecuteMigration(error, _) if is_conflict(&error) => error.into(),
            Failure::VersionMismatch(version) => MigrateError::Changed(version),
            error => MigrateError::Migration(error),
        }
    }
}

/// Returns the refusal that the error of a stale token reports. The name may have been cut.
fn refusal(error: &sqlx::Error) -> Option<Stale> {
    parse(error.as_database_error()?.message())
}

/// Reads `fencing: token 33 is stale, high water 34, resource files/a`, after any text. The name is the rest:
/// it may contain anything. SQLite quotes the message.
fn parse(text: &str) -> Option<Stale> {
    let (before, presented, highest, name) = parts(text)?;
    let resource = match is_quoted(before) {
        true => Resource::new(name.rsplit_once('\'')?.0.replace("''", "'")),
        false => Resource::new(name.trim_end()),
    };
    Stale::check(&resource.ok()?, presented, Some(highest)).err()
}

/// The longest message of MySQL, in characters. A longer one ends in three dots.
const MAX_MESSAGE: usize = 128;

/// Finds the high water that refused this token of this resource. A library may append text to the message, behind white
/// space or a mark that closes it; SQLite quotes it, which doubles quotes in the name; MySQL may have cut the name.
fn high_water(text: &str, resource: &Resource, token: Token) -> Option<Token> {
    let (before, presented, highest, name) = parts(text)?;
    let quoted = is_quoted(before);
    let own = if quoted { resource.as_str().replace('\'', "''") } else { resource.as_str().to_owned() };
    let ends = |rest: &str| match quoted {
        true => rest.starts_with('\'') && !rest.starts_with("''"),
        false => rest.chars().next().is_none_or(|next| next.is_whitespace() || "\"'`)]},;\\".contains(next)),
    };
    let room = MAX_MESSAGE.saturating_sub(text.get(before.len()..text.len() - name.len())?.len());
    let cut = name.char_indices().nth(room).map_or(name, |(end, _)| name.split_at(end).0);
    let is_cut = || cut.chars().count() == room && cut.strip_suffix("...").is_some_and(|start| own.starts_with(start));
    let is_own = name.strip_prefix(&own).is_some_and(ends) || is_cut();
    (is_own && presented == token).then_some(highest)
}

fn is_quoted(before: &str) -> bool {
    before.ends_with('\'')
}

/// Splits the message: the text before it, the two tokens, and the name with the text after it.
fn parts(text: &str) -> Option<(&str, Token, Token, &str)> {
    let (before, text) = text.split_once("fencing: token ")?;
    let (presented, text) = text.split_once(" is stale, high water ")?;
    let (highest, name) = text.split_once(", resource ")?;
    Some((before, presented.parse().ok()?, highest.parse().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_and_nothing_else() {
        let text = "x: fencing: token 33 is stale, high water 34, resource a, resource b";
        let stale = parse(text).unwrap();
        assert_eq!((stale.presented.get(), stale.highest.get()), (33, 34));
        assert_eq!(stale.resource.as_str(), "a, resource b");
        let quoted = "bad JSON path: 'fencing: token 33 is stale, high water 34, resource it''s' x";
        assert_eq!(parse(quoted).unwrap().resource.as_str(), "it's");
        for text in [
            "",
            "fencing: token 0 is stale, high water 34, resource a",
            "fencing: token 33 is stale, high water 034, resource a",
            "fencing: token 33 is stale, high water 34, resource ",
            "token 33 is stale, high water 34, resource a",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_high_water_is_read_whatever_stands_around_the_message() {
        let of = |name: &str, text: &str| {
            let token = "33".parse().unwrap();
            high_water(text, &Resource::new(name).unwrap(), token).map(Token::get)
        };
        let plain = "fencing: token 33 is stale, high water 34, resource files/a";
        assert_eq!(of("files/a", plain), Some(34));
        assert_eq!(of("files/a", &format!("Query Error: x: {plain} at line 7")), Some(34));
        assert_eq!(of("files/a", &format!("(1644, \"{plain}\")")), Some(34));
        for other in ["files/b", "files/a/b", "files/ab", "files", "file"] {
            assert_eq!(of(other, plain), None, "{other}");
            assert_eq!(of("files/a", &plain.replace("files/a", other)), None, "{other}");
        }
        assert_eq!(of("files/a", &plain.replace("33", "32")), None);
        let quoted = "bad JSON path: 'fencing: token 33 is stale, high water 34, resource it''s' x";
        assert_eq!(of("it's", quoted), Some(34));
        assert_eq!(of("it", quoted), None);
        let long = "l".repeat(128 - 3 - "fencing: token 33 is stale, high water 34, resource ".len());
        let cut = format!("1644 (ZF412): fencing: token 33 is stale, high water 34, resource {long}...");
        assert_eq!(of(&format!("{long}onger"), &cut), Some(34));
        assert_eq!(of(&format!("{long}onger"), &format!("{cut} at line 7")), Some(34));
        assert_eq!(of("other", &cut), None);
        assert_eq!(of("longer", &cut.replace(&long, "long")), None);
    }
}
