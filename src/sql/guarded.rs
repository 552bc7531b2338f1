use fencing_protocol::{Resource, Token};
use sqlx::error::BoxDynError;
use sqlx::{Arguments as _, Encode, Pool, Transaction, Type};

use super::AdmitError;
use super::admit::{begin, count_outcome, keep_or_roll_back};
use crate::database::{Database, Meaning, fill, meaning, open_transaction};

/// A write that carries its own admission: [`guarded`] makes one.
#[must_use = "it writes nothing before it is run"]
pub struct Guarded<DB: Database> {
    statement: &'static str,
    condition: &'static str,
    /// Those of both, or why one could not be encoded.
    values: Result<DB::Arguments, BoxDynError>,
}

/// Folds the admission into a write, such as `UPDATE files SET body = $1` under the condition `path = $2`: one
/// statement reads the mark, locks it, and writes only if the token is the mark. On PostgreSQL and SQLite that costs
/// less than [`begin`](super::begin()) before the same write. On MySQL and MariaDB it is `begin` and the write.
///
/// `statement` is one UPDATE or DELETE without WHERE: in others, such as `INSERT ... SELECT` with an aggregate, a
/// condition at the end does not keep rows from being written. `condition` is what follows WHERE. Bind the values of
/// both with [`bind`](Guarded::bind). [`begin`](Guarded::begin) opens a transaction, and runs it as the first write.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn write(
/// #     pool: sqlx::PgPool, file: fencing::Resource, token: fencing::Token,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use fencing::sql;
///
/// let write = sql::guarded("UPDATE files SET body = $1", "path = $2").bind("new").bind("a");
/// let (mut tx, rows) = write.begin(&pool, &file, token).await?;
/// sqlx::query("INSERT INTO log VALUES ($1)").bind(i64::try_from(rows)?).execute(&mut *tx).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// **Fencing.** As [`begin`](super::begin()): the mark is locked from the statement until its transaction ends, and a
/// stale token writes nothing. At the first contact of a token, for a stale token, and if no row meets the condition,
/// the transaction is rolled back, and `begin` decides in another one.
///
/// It does not present the token to protected tables. It reads the mark itself, which needs rights on
/// `fencing_marks`: on PostgreSQL SELECT, and UPDATE of `token`. If the user lacks them, or the session has
/// a temporary table, `begin` decides each time. Through a pooler in transaction mode (pgbouncer) use
/// `begin` instead, because this statement is prepared. Bind one value for each parameter of the two texts:
/// `$1` and so on, on SQLite `?` or `?1`. What looks like one in a quoted text or in a comment counts as well.
pub fn guarded<DB: Database>(statement: &'static str, condition: &'static str) -> Guarded<DB> {
    Guarded { statement, condition, values: Ok(DB::Arguments::default()) }
}

impl<DB: Database> Guarded<DB> {
    /// Binds the next value.
    pub fn bind<'t, T: Encode<'t, DB> + Type<DB>>(mut self, value: T) -> Guarded<DB> {
        self.values = self.values.and_then(|mut values: DB::Arguments| values.add(value).map(|()| values));
        self
    }

    /// Begins a transaction with this write, and returns how many rows it wrote.
    ///
    /// # Errors
    /// As for [`begin`](super::begin()), and those of the write; the transaction has been rolled
    /// back, if the database could be reached. [`AdmitError::Database`] with `sqlx::Error::Configuration` if the
    /// statement is not one UPDATE or DELETE, or has more or fewer parameters than values: then nothing was sent.
    ///
    /// # Cancel safety
    /// If it is dropped, the transaction is rolled back.
    pub async fn begin(
        &self,
        pool: &Pool<DB>,
        resource: &Resource,
        token: Token,
    ) -> Result<(Transaction<'static, DB>, u64), AdmitError> {
        let values = self.check()?;
        if let Some(held) = DB::MARK_CONDITION {
            let mut folded = values.clone();
            DB::add_values(&mut folded, resource.as_str(), token.into()).map_err(sqlx::Error::Encode)?;
            let held = fill(held, &[("{resource}", &(folded.len() - 1)), ("{token}", &folded.len())]);
            let mut tx = open_transaction(pool.acquire().await?, DB::BEGIN.into()).await?;
            let written = DB::run(&mut tx, format!("{} AND {held}", self.plain()), folded).await;
            let (tx, rows) = keep_or_roll_back(tx, read_decision(written)).await?;
            if let Some(rows) = rows {
                return Ok((tx, rows));
            }
            tx.rollback().await?;
        }
        let mut tx = begin(pool, resource, token).await?;
        let rows = DB::run(&mut tx, self.plain(), values.clone()).await;
        keep_or_roll_back(tx, rows.map_err(AdmitError::from)).await
    }

    /// Returns the values. Refuses a statement that a condition at its end does not guard as a whole.
    fn check(&self) -> Result<&DB::Arguments, AdmitError> {
        let unfit = |error: &BoxDynError| sqlx::Error::Encode(error.to_string().into());
        let values = self.values.as_ref().map_err(unfit)?;
        // With one value too few the statement would take one of the guard for it. (On MySQL the driver would hang.)
        let (parameters, bound) = (count_parameters(&self.plain(), DB::PARAMETER), values.len());
        let first = self.statement.split_whitespace().next().unwrap_or_default();
        let fits = ["UPDATE", "DELETE"].iter().any(|word| first.eq_ignore_ascii_case(word));
        let rule = match parameters {
            None => "number all parameters of the statement, or none".into(),
            Some(parameters) if parameters != bound => format!(
                "the statement has {parameters} parameters (quoted texts and comments count), and {bound} values \
                 are bound"
            ),
            Some(_) if fits && !self.statement.contains(';') && !self.condition.contains(';') => return Ok(values),
            Some(_) => "sql::guarded takes one UPDATE or DELETE, without WHERE and without a semicolon".into(),
        };
        Err(sqlx::Error::Configuration(rule.into()).into())
    }

    /// The line breaks end a comment that either text may have.
    fn plain(&self) -> String {
        format!("{}\nWHERE (\n{}\n)", self.statement, self.condition)
    }
}

/// Returns how many rows the guarded statement wrote, if any: then the mark is locked.
fn read_decision(written: sqlx::Result<u64>) -> Result<Option<u64>, AdmitError> {
    match written {
        Ok(0) => Ok(None),
        Ok(rows) => count_outcome(Ok(Some(rows))),
        Err(error) if meaning(&error) == Some(Meaning::Denied) => Ok(None),
        Err(error) => count_outcome(Err(error.into())),
    }
}

/// Returns the number of parameters of a statement: of those with a number, the last one. `None` if others have none,
/// which drivers and databases count differently. Only the database itself knows what is quoted or a comment: what
/// looks like a parameter there counts as well. A database whose `first` parameter is `$1` has `?` as an operator.
fn count_parameters(sql: &str, first: &str) -> Option<usize> {
    let (mut last, mut plain) = (0, 0);
    for (at, mark) in sql.match_indices(['$', '?']) {
        let after = sql.get(at + 1..).unwrap_or_default();
        let digits = after.split(|found: char| !found.is_ascii_digit()).next().unwrap_or_default();
        match digits.parse::<usize>() {
            Ok(number) => last = last.max(number),
            Err(_) => plain += usize::from(mark == "?" && first.starts_with('?')),
        }
    }
    (last == 0 || plain == 0).then_some(last + plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_with_and_without_a_number() {
        for (sql, first, count) in [
            ("a = 1", "$1", Some(0)),
            ("UPDATE files SET body = $1 WHERE path = $2", "$1", Some(2)),
            ("$2 $1 $12 $3", "$1", Some(12)),
            ("body ? 'key' AND path = $1", "$1", Some(1)),
            (r"body = E'it\'s' AND path = $2", "$1", Some(2)),
            ("$ $a", "$1", Some(0)),
            ("a = ? AND b = ?", "?1", Some(2)),
            ("a = ?5 AND b = ?", "?1", None),
            ("a = $1 AND b = $2", "?1", Some(2)),
        ] {
            assert_eq!(count_parameters(sql, first), count, "{sql}");
        }
    }
}
