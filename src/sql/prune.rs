use std::fmt::Write;
use std::time::Duration;

use sqlx::{Pool, Transaction};

use super::AdmitError;
use super::opening::OpeningTransaction;
use super::protect::quoted::unhex;
use crate::database::{Database, Kind, Texts};
use crate::token::Token;

/// How many marks go in one transaction.
const BATCH: usize = 1000;

/// Nobody has marks that are older.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Removes old marks: where resources come and go, their marks would stay for ever.
///
/// Above all that is removed rises the floor, the mark of every resource that has none of its own: tokens
/// below it are refused there, and [`SqlLock`](crate::lock::sql::SqlLock) grants tokens that are not
/// below it. A mark is old if no token has raised it for so long. One whose lease in the same database
/// lasts is kept, and a lease that lasts but has no mark yet gets one.
///
/// **Fencing.** Nothing that was stale is admitted afterwards, whatever writers do meanwhile. What is
/// refused besides: a token below the floor, where its resource has no mark any more or not yet. So
/// choose a time longer than a lease of another lock service is ever held. Redlock does not know of the
/// floor, and counts for each resource: give it a bound by [`below`](Prune::below).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    older_than: Duration,
    below: Token,
}

/// What is pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// How many marks.
    pub marks: u64,
    /// The highest of them: its name, with what is not UTF-8 replaced, and its token. It decides
    /// where the floor is.
    pub highest: Option<(String, Token)>,
    /// The floor before.
    pub from: Token,
    /// The floor after: resources without a mark refuse all tokens below it.
    pub floor: Token,
}

impl Prune {
    /// Prunes the marks that were raised last so long ago or longer, to the second. At most 100 years.
    #[must_use]
    pub fn older_than(older_than: Duration) -> Prune {
        Prune { older_than: older_than.min(LONGEST), below: Token::MAX }
    }

    /// Prunes only marks below this token, so that the floor does not rise above it. With Redlock: the
    /// first token of the oldest era of the fleet (`fencing nodes` shows the eras; an era is the token's
    /// high nine digits). A mark that is too high, such as one that a forged token has raised, would else
    /// take the floor up with it. Default: [`Token::MAX`].
    #[must_use]
    pub fn below(self, below: Token) -> Prune {
        Prune { below, ..self }
    }

    /// Says what [`run`](Prune::run) would do, and changes nothing.
    ///
    /// # Errors
    /// As for [`highest`](super::highest()).
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn look<DB: Database>(&self, pool: &Pool<DB>) -> Result<Pruned, AdmitError> {
        let mut conn = pool.acquire().await?;
        let cutoff = self.cutoff::<DB>(&mut conn).await?;
        self.plan::<DB>(&mut conn, &cutoff).await
    }

    /// Raises the floor, then removes the marks, a thousand at a time. Marks that a transaction holds at
    /// that moment stay. Run it as the owner of the tables.
    ///
    /// To raise the floor it waits a second at most for transactions that have written a resource for the
    /// first time; new leases wait for that one transaction.
    ///
    /// # Errors
    /// As for [`admit`](super::admit()). [`AdmitError::Retryable`] if others were in the way; what
    /// was done till then is whole.
    ///
    /// # Cancel safety
    /// If it is dropped, the floor may have risen, and some of the marks may be gone: run it again.
    pub async fn run<DB: Database>(&self, pool: &Pool<DB>) -> Result<Pruned, AdmitError> {
        let cutoff;
        let plan;
        {
            let mut conn = pool.acquire().await?;
            cutoff = self.cutoff::<DB>(&mut conn).await?;
            plan = self.plan::<DB>(&mut conn, &cutoff).await?;
        }
        if plan.marks == 0 {
            return Ok(plan);
        }
        let mut tx = begin(pool).await?;
        for statement in raise_floor::<DB>(plan.floor) {
            DB::execute(&mut tx, statement).await?;
        }
        tx.commit().await?;
        let (mut marks, mut after) = (0, String::new());
        loop {
            let mut tx = begin(pool).await?;
            let old = self.old::<DB>(&cutoff, plan.floor);
            let select = match DB::KIND {
                Kind::Postgres => format!(
                    "SELECT encode(convert_to(resource, 'UTF8'), 'hex') FROM fencing_marks AS mark
                    WHERE {old} AND resource > {} ORDER BY resource LIMIT {BATCH}
                    FOR UPDATE OF mark SKIP LOCKED",
                    name::<DB>(&after)
                ),
                Kind::MySql => format!(
                    "SELECT HEX(resource) FROM fencing_marks_base AS mark
                    WHERE {old} AND resource > {} ORDER BY resource LIMIT {BATCH}
                    FOR UPDATE SKIP LOCKED",
                    name::<DB>(&after)
                ),
                Kind::Sqlite => format!(
                    "SELECT hex(resource) FROM main.fencing_marks AS mark
                    WHERE {old} AND resource > {} ORDER BY resource LIMIT {BATCH}",
                    name::<DB>(&after)
                ),
            };
            let rows = DB::texts(&mut tx, select, Vec::new()).await?;
            let names: Vec<String> = rows.into_iter().flatten().flatten().collect();
            let Some(last) = names.last() else { break };
            after.clone_from(last);
            let listed = names.iter().fold(String::new(), |mut listed, own| {
                let comma = if listed.is_empty() { "" } else { ", " };
                let _ = write!(listed, "{comma}{}", name::<DB>(own));
                listed
            });
            let delete = format!("DELETE FROM {} WHERE resource IN ({listed})", table::<DB>());
            DB::execute(&mut tx, delete).await?;
            tx.commit().await?;
            marks += names.len() as u64;
        }
        Ok(Pruned { marks, ..plan })
    }

    /// Reads the time, as the marks have it.
    async fn cutoff<DB: Database>(&self, conn: &mut DB::Connection) -> sqlx::Result<String> {
        let seconds = self.older_than.as_secs() + u64::from(self.older_than.subsec_nanos() > 0);
        let select = match DB::KIND {
            Kind::Postgres => {
                format!("SELECT (clock_timestamp() - interval '{seconds} seconds')::text")
            }
            Kind::MySql => {
                format!("SELECT CAST(UTC_TIMESTAMP(6) - INTERVAL {seconds} SECOND AS CHAR)")
            }
            Kind::Sqlite => {
                format!("SELECT CAST(CAST(strftime('%s', 'now') AS INTEGER) - {seconds} AS TEXT)")
            }
        };
        let rows = DB::texts(conn, select, Vec::new()).await?;
        rows.into_iter().flatten().flatten().next().ok_or(sqlx::Error::RowNotFound)
    }

    async fn plan<DB: Database>(
        &self,
        conn: &mut DB::Connection,
        cutoff: &str,
    ) -> Result<Pruned, AdmitError> {
        let (table, text) = (table::<DB>(), if DB::KIND == Kind::MySql { "CHAR" } else { "TEXT" });
        let old = self.old::<DB>(cutoff, self.below);
        let bytes = match DB::KIND {
            Kind::Postgres => "encode(convert_to(resource, 'UTF8'), 'hex')",
            Kind::MySql | Kind::Sqlite => "hex(resource)",
        };
        let first = |rows: Vec<Texts>| rows.into_iter().next().unwrap_or_default();
        let floor = format!("SELECT CAST(token AS {text}) FROM {table} WHERE resource = ''");
        let from = first(DB::texts(conn, floor, Vec::new()).await?).into_iter().flatten().next();
        let from: Token =
            from.and_then(|from| from.parse().ok()).ok_or(sqlx::Error::RowNotFound)?;
        let count = format!("SELECT CAST(count(*) AS {text}) FROM {table} AS mark WHERE {old}");
        let count = first(DB::texts(conn, count, Vec::new()).await?).into_iter().flatten().next();
        let marks = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        let highest = format!(
            "SELECT {bytes}, CAST(token AS {text}) FROM {table} AS mark WHERE {old}
            ORDER BY token DESC LIMIT 1"
        );
        let highest = match &first(DB::texts(conn, highest, Vec::new()).await?)[..] {
            [Some(own), Some(token)] => {
                let own = unhex(own).unwrap_or_default();
                let own = String::from_utf8_lossy(&own).into_owned();
                token.parse::<Token>().ok().map(|token| (own, token))
            }
            _ => None,
        };
        let above = highest.as_ref().and_then(|(_, token)| Token::new(token.get() + 1).ok());
        Ok(Pruned { marks, highest, from, floor: above.unwrap_or(from).max(from) })
    }

    /// Returns the condition of what is pruned.
    fn old<DB: Database>(&self, cutoff: &str, below: Token) -> String {
        let (cutoff, leases) = match DB::KIND {
            Kind::Postgres => (format!("'{cutoff}'::timestamptz"), "fencing_leases"),
            Kind::MySql => (format!("'{cutoff}'"), "fencing_leases"),
            Kind::Sqlite => (cutoff.to_owned(), "main.fencing_leases"),
        };
        let below = below.min(self.below);
        format!(
            "mark.resource <> '' AND mark.token >= 1 AND mark.token < {below}
            AND mark.raised_at <= {cutoff} AND NOT EXISTS (SELECT 1 FROM {leases} AS lease
                WHERE lease.resource = mark.resource AND lease.expires_at > {})",
            now::<DB>()
        )
    }
}

/// Opens a transaction that waits a second at most.
async fn begin<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<Transaction<'static, DB>> {
    let mut conn = pool.acquire().await?;
    let begin = match DB::KIND {
        Kind::Postgres => "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 1000",
        Kind::MySql => {
            // The settings belong to the session.
            conn.close_on_drop();
            let wait = "SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1";
            DB::execute(&mut conn, wait.into()).await?;
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION"
        }
        Kind::Sqlite => DB::BEGIN,
    };
    OpeningTransaction::new(conn, begin.into()).await
}

/// Returns the statements that raise the floor. They wait for whoever is about to create a mark, and on
/// PostgreSQL for whoever is about to grant a lease; MySQL's procedure locks the floor itself. A lease
/// that lasts gets its mark, if it is above the old floor: nothing above it was ever pruned.
fn raise_floor<DB: Database>(floor: Token) -> Vec<String> {
    let table = table::<DB>();
    let (lock, insert, conflict, leases) = match DB::KIND {
        Kind::Postgres => (
            "LOCK TABLE fencing_leases IN SHARE MODE",
            "INSERT INTO",
            "ON CONFLICT DO NOTHING",
            "fencing_leases",
        ),
        Kind::MySql => (
            "SELECT token FROM fencing_marks_base WHERE resource = '' FOR UPDATE",
            "INSERT IGNORE INTO",
            "",
            "fencing_leases",
        ),
        Kind::Sqlite => ("SELECT 1", "INSERT OR IGNORE INTO", "", "main.fencing_leases"),
    };
    let hold = match DB::KIND {
        Kind::Postgres => "SELECT token FROM fencing_marks WHERE resource = '' FOR UPDATE",
        Kind::MySql | Kind::Sqlite => "SELECT 1",
    };
    let held = format!(
        "{insert} {table} (resource, token) SELECT lease.resource, lease.token FROM {leases} AS lease
        WHERE lease.expires_at > {} AND lease.token < {floor}
            AND lease.token >= (SELECT token FROM {table} AS floor WHERE resource = '')
            AND NOT EXISTS (SELECT 1 FROM {table} AS mark WHERE mark.resource = lease.resource)
        {conflict}",
        now::<DB>()
    );
    let raise =
        format!("UPDATE {table} SET token = {floor} WHERE resource = '' AND token < {floor}");
    vec![lock.into(), hold.into(), held, raise]
}

fn table<DB: Database>() -> &'static str {
    match DB::KIND {
        Kind::Postgres => "fencing_marks",
        Kind::MySql => "fencing_marks_base",
        Kind::Sqlite => "main.fencing_marks",
    }
}

/// Returns the time, as the leases have it.
fn now<DB: Database>() -> &'static str {
    match DB::KIND {
        Kind::Postgres => "clock_timestamp()",
        Kind::MySql => "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
        Kind::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    }
}

/// Writes a name that was read in hexadecimal digits.
fn name<DB: Database>(digits: &str) -> String {
    match DB::KIND {
        Kind::Postgres => format!("convert_from(decode('{digits}', 'hex'), 'UTF8')"),
        Kind::MySql => format!("x'{digits}'"),
        Kind::Sqlite => format!("CAST(x'{digits}' AS TEXT)"),
    }
}
