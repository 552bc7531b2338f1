use std::fmt::Display;
use std::time::{Duration, SystemTime};

use fencing::lock::Lock;
use fencing::lock::sql::SqlLock;
use fencing::sql;
use sqlx::{query_as, raw_sql};

use crate::duration::about;
use crate::exit::{Failure, Status};
use crate::findings::{self, NodeBudget, clock_fault};
use crate::lock_service::{ChosenLock, LockService, LockUrl, Redis};
use crate::marks::{self, MarksStore, MarksUrl};
use crate::nodes::verdict;
use crate::pool::{ANSWER_TIMEOUT, Pool, connect, on, with_timeout};
use crate::say;

/// Checks the lock service and the storage, and says what to fix. It takes no lock, and changes no table.
///
/// For nodes it checks what `fencing nodes` reports, and the clocks; for a database, whether its tables are up to date
/// and guard what they should, which tables are protected, and the clock; for etcd and ZooKeeper, whether a majority
/// answers a client with the default TTL (10s), and the version; for marks in a Redis, whether they are open. Use your
/// service's URLs and role; it must read `_fencing_migrations` and the protected tables, and on MySQL and MariaDB call
/// a procedure of the fence.
///
/// Each line on stdout begins with "ok" or "fix". Status 0: there is nothing to fix; 69: no lease is granted, or a database
/// does not answer; 65: something else needs fixing, such as one node of five.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    lock: LockUrl,
    #[command(flatten)]
    marks: MarksUrl,
    #[command(flatten)]
    budget: NodeBudget,
}

pub(crate) async fn main(args: DoctorArgs) -> Result<Status, Failure> {
    let (service, marks) = args.marks.beside(&args.lock)?;
    let (mut report, mut databases) = (Report { status: Status::DONE, began: SystemTime::now() }, Vec::new());
    match service {
        LockService::Redis(redis) => report.check_nodes(&redis, args.budget.within(Duration::MAX)).await?,
        LockService::Database(url) => databases.push((url, true)),
        engine @ LockService::Engine { .. } => {
            report.check_lock(&*ChosenLock::open(engine.options()).await?.lock).await
        }
    }
    match marks {
        Some(MarksStore::Redis(marks)) => {
            let found = match marks.look().await {
                Ok(found) if found.is_open() => Ok(format!("open, {} of them", found.marks)),
                Ok(found) => Err(Failure::refused(format_args!(
                    "{}; everything is refused; see `fencing db marks open --help`",
                    marks::state(&found)
                ))),
                Err(error) => Err(error.into()),
            };
            report.note("the marks", found);
        }
        Some(MarksStore::Database(url)) => databases.push((url, false)),
        None => {}
    }
    databases.dedup_by(|(marks, _), (leases, _)| marks == leases);
    for (url, has_leases) in &databases {
        // A password may hold any character.
        let hidden = say::without_passwords(url);
        let name = hidden.split('?').next().unwrap_or_default();
        if let Err(failure) = report.check_database(name, url, *has_leases).await {
            report.note(name, Err(failure));
        }
    }
    Ok(report.status)
}

struct Report {
    status: Status,
    began: SystemTime,
}

impl Report {
    fn note(&mut self, what: impl Display, found: Result<String, Failure>) {
        match found {
            Ok(fine) => say::out(format_args!("ok    {what}: {fine}\n")),
            Err(Failure { status, message }) => {
                say::out(format_args!("fix   {what}: {}\n", say::without_passwords(&message)));
                // A database that stays locked grants no lease either.
                self.status = self.status.max(if status == Status::HELD { Status::UNAVAILABLE } else { status });
            }
        }
    }

    async fn check_nodes(&mut self, redis: &Redis, budget: Duration) -> Result<(), Failure> {
        let findings = findings::ask(redis, budget).await?;
        let (granting, all) = (findings.granting(), findings.nodes.len());
        self.note("the nodes", verdict(&findings).map(|()| format!("{granting} of {all} grant leases now")));
        for finding in &findings.nodes {
            let report = finding.report.as_ref();
            let found = match (finding.advised(&findings), finding.quarantine()) {
                (Some(advice), _) => Err(Failure::refused(advice)),
                (_, Some(Duration::MAX)) => Err(Failure::refused(
                    "grants nothing until an operator ends its quarantine: see `fencing fleet recover --now`",
                )),
                (_, Some(left)) => Ok(format!("grants nothing for another {}, which ends by itself", about(left))),
                _ => Ok(format!("version {}", report.map_or("", |report| &report.version))),
            };
            self.note(&finding.node, found);
            self.check_clock(&finding.node, report.and_then(|report| report.clock));
        }
        Ok(())
    }

    async fn check_lock(&mut self, lock: &dyn Lock) {
        let health = lock.health().await;
        let causes = say::listed(&health.causes, "; ");
        let found = match (health.has_quorum(), causes.is_empty()) {
            (true, true) => Ok("ready, as far as can be seen without a lease".to_owned()),
            (true, false) => Err(Failure::refused(format_args!("ready, but {causes}"))),
            (false, _) => Err(Failure::unavailable(causes)),
        };
        self.note("the lock service", found);
    }

    async fn check_database(&mut self, name: &str, url: &str, has_leases: bool) -> Result<(), Failure> {
        let refused = |failure| match failure {
            // Clients that ask for a lease are refused as well.
            Failure { status: Status::REFUSED, message } if has_leases => Failure::unavailable(message),
            failure => failure,
        };
        let pool = connect(name, url, false, 1).await.map_err(refused)?;
        let state = match &pool {
            Pool::Sqlite(_) => "SELECT unixepoch(), 'off'",
            Pool::MySql(_) => "SELECT UNIX_TIMESTAMP(), CAST(@@read_only AS CHAR)",
            Pool::Postgres(_) => "SELECT extract(epoch FROM now())::bigint, current_setting('transaction_read_only')",
        };
        let (now, read_only): (i64, String) = on!(&pool, pool => with_timeout(query_as(state).fetch_one(pool)).await)?;
        self.check_clock(name, u64::try_from(now).ok().map(Duration::from_secs));
        if !matches!(read_only.as_str(), "off" | "OFF" | "0") {
            self.note(name, Err(Failure::unavailable("takes no writes: it is a standby, or read-only")));
        } else if has_leases {
            on!(pool.clone(), pool => {
                // As patient as the other checks.
                let lock = SqlLock::builder(pool).ttl(ANSWER_TIMEOUT * 2).budget(ANSWER_TIMEOUT);
                self.check_lock(&lock.build()?).await;
            });
        }
        on!(&pool, pool => with_timeout(sql::check(pool)).await)?;
        if let Pool::Sqlite(pool) = &pool {
            // A file that takes no writes, or whose folder takes none, can be opened all the same.
            let write = "BEGIN IMMEDIATE; UPDATE main._fencing_migrations SET version = version; ROLLBACK";
            with_timeout(raw_sql(write).execute(pool)).await.map_err(refused)?;
        }
        self.note(name, Ok("its tables are up to date".to_owned()));
        let tables = on!(&pool, pool => with_timeout(sql::protected(pool, None)).await)?;
        if tables.is_empty() {
            self.note(name, Ok("no table is protected, or this user may not see triggers".to_owned()));
        }
        for table in tables {
            let found = match (table.faults.is_empty(), table.shadow) {
                (false, _) => Err(Failure::refused(table.faults.join("; "))),
                (true, true) => Err(Failure::refused("nothing is refused: protect it without --shadow")),
                (true, false) => Ok("protected".to_owned()),
            };
            self.note(format_args!("table {}", table.table), found);
        }
        Ok(())
    }

    /// After a loss of all tokens the next ones come from the clocks of the servers.
    fn check_clock(&mut self, name: &str, clock: Option<Duration>) {
        if let Some(why) = clock_fault(clock, self.began) {
            self.note(name, Err(Failure::refused(why)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_clock_that_is_far_off_is_to_be_mended() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        for (clock, status) in [(None, 0), (Some(now), 0), (Some(now / 2), 65), (Some(now * 2), 65)] {
            let mut report = Report { status: Status::DONE, began: SystemTime::now() };
            report.check_clock("a", clock);
            assert_eq!(report.status, Status(status), "{clock:?}");
        }
    }
}
