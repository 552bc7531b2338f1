//! What the command line does on a database: migrations, marks, protected tables.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencing::fence::{Marks as _, MarksError};
use fencing::sql::{self, AdmitError, MigrateError, Protect, ProtectError, SqlMarks};
use fencing::{Resource, Token};
use serde_json::Value;
use sqlx::{MySql, Postgres, Sqlite};

use crate::args::database::{
    Database, Lower, Marks, MarksAction, Migrate, ProtectTable, Prune, Raise, RaiseFloor,
};
use crate::pool::{Failure, Kind, connect, kind, on, usage};
use crate::{exit, opening, protected, say};

/// How many marks are read at once.
const PAGE: u32 = 1000;

pub(crate) async fn migrate(args: Migrate) -> u8 {
    ended(run_migrate(&args).await)
}

pub(crate) async fn protect(args: ProtectTable) -> u8 {
    ended(run_protect(&args).await)
}

pub(crate) async fn marks(args: Marks) -> u8 {
    ended(match &args.action {
        Some(MarksAction::Raise(raise)) => run_raise(raise).await,
        Some(MarksAction::Lower(lower)) => run_lower(lower).await,
        Some(MarksAction::Prune(prune)) => run_prune(prune).await,
        Some(MarksAction::RaiseFloor(floor)) => run_raise_floor(floor).await,
        Some(MarksAction::Open(open)) => opening::open(open).await,
        None => match args.database() {
            Some(database) => list(&database, args.resource.as_ref()).await,
            None => Err(usage("--database needs a URL, such as sqlite:data.db")),
        },
    })
}

async fn run_migrate(args: &Migrate) -> Result<(), Failure> {
    if args.print {
        return print(args);
    }
    let pool = connect(&args.database.url, true, 1).await?;
    on!(&pool, pool => sql::migrate(pool).await).map_err(not_migrated)
}

/// Prints the parts for the database's own client.
fn print(args: &Migrate) -> Result<(), Failure> {
    let kind = kind(&args.database.url)?;
    let (migrations, removal) = match kind {
        Kind::Sqlite => (sql::migrations::<Sqlite>(), sql::removal::<Sqlite>()),
        Kind::Postgres => (sql::migrations::<Postgres>(), sql::removal::<Postgres>()),
        Kind::MySql => (sql::migrations::<MySql>(), sql::removal::<MySql>()),
    };
    let parts = match args.down {
        true => vec![("remove".to_owned(), removal)],
        false => migrations
            .iter()
            .map(|(version, what, sql)| (format!("{version:04} {what}"), *sql))
            .collect(),
    };
    if matches!(kind, Kind::MySql) && !args.down {
        say::out(
            "-- For `mysql --comments`: without it the client changes the routines, and `--check` finds that.\n\n",
        );
    }
    for (name, sql) in parts {
        let sql = sql.trim_end();
        match kind {
            // MySQL's client would cut a procedure at each semicolon.
            Kind::MySql => {
                say::out(format_args!("-- {name}\nDELIMITER $$\n{sql}\n$$\nDELIMITER ;\n\n"));
            }
            Kind::Postgres | Kind::Sqlite => say::out(format_args!("-- {name}\n{sql}\n\n")),
        }
    }
    Ok(())
}

async fn run_protect(args: &ProtectTable) -> Result<(), Failure> {
    if args.check {
        return check(&args.database, args.table.as_deref(), args.json).await;
    }
    let Some(table) = &args.table else { return Err(usage("give --table")) };
    if args.remove {
        return remove(&args.database, table, args.yes).await;
    }
    let columns: Vec<&str> = args.column.iter().map(String::as_str).collect();
    let protect = match &args.resource {
        None => Protect::rows_by(table, &columns)
            .and_then(|protect| protect.prefix(args.prefix.as_deref().unwrap_or(""))),
        Some(resource) => Protect::whole(table, resource.clone()),
    };
    let protect = protect.map_err(usage)?;
    let protect = if args.shadow { protect.shadow() } else { protect };
    if args.print {
        let statements = match kind(&args.database.url)? {
            Kind::Sqlite => {
                say::out("-- First, once: ALTER TABLE ... ADD COLUMN fencing_token ANY\n");
                protect.statements::<Sqlite>()
            }
            Kind::Postgres => protect.statements::<Postgres>(),
            Kind::MySql => protect.statements::<MySql>(),
        };
        for statement in statements {
            say::out(format_args!("{statement};\n"));
        }
        return Ok(());
    }
    let pool = connect(&args.database.url, false, 1).await?;
    on!(&pool, pool => protect.apply(pool).await).map_err(not_protected)
}

/// Lists the protected tables, and fails if one is not whole.
async fn check(database: &Database, table: Option<&str>, json: bool) -> Result<(), Failure> {
    let pool = connect(&database.url, false, 1).await?;
    let tables = on!(&pool, pool => sql::protected(pool, table).await).map_err(not_protected)?;
    let refusals = match tables.iter().any(|table| table.shadow) {
        true => on!(&pool, pool => sql::refusals(pool).await).map_err(not_admitted)?,
        false => Vec::new(),
    };
    if json {
        let array = tables.iter().map(|table| protected::described(table, &refusals)).collect();
        say::out(format_args!("{:#}\n", Value::Array(array)));
    } else {
        tables.iter().for_each(|table| protected::print(table, &refusals));
    }
    let broken = tables.iter().filter(|table| !table.faults.is_empty()).count();
    let shadowed = tables.iter().filter(|table| table.shadow).count();
    match (tables.len(), broken, shadowed) {
        (0, ..) => Err(Failure(exit::REFUSED, "no table is protected".into())),
        (_, 0, 0) => Ok(()),
        (all, 0, _) => Err(Failure(
            exit::REFUSED,
            format!(
                "{shadowed} of {all} tables are in shadow mode, where nothing is refused: protect \
                 them without --shadow"
            ),
        )),
        (all, ..) => Err(Failure(
            exit::REFUSED,
            format!(
                "{broken} of {all} tables are not protected as they should be: protect them again"
            ),
        )),
    }
}

async fn remove(database: &Database, table: &str, yes: bool) -> Result<(), Failure> {
    let pool = connect(&database.url, false, 1).await?;
    let found = on!(&pool, pool => sql::protected(pool, Some(table)).await);
    let Some(found) = found.map_err(not_protected)?.into_iter().next() else { return Ok(()) };
    if !found.is_protected() {
        return Err(Failure(exit::REFUSED, format!("the table {table} is not protected")));
    }
    if !yes {
        say::error(format_args!(
            "would take the triggers off the table {table}: anybody may write to it from then on, \
             without a token. Add --yes to do it"
        ));
        return Err(Failure(exit::USAGE, String::new()));
    }
    on!(&pool, pool => found.remove(pool).await).map_err(not_protected)
}

async fn list(database: &Database, resource: Option<&Resource>) -> Result<(), Failure> {
    let pool = connect(&database.url, false, 1).await?;
    if let Some(resource) = resource {
        let mark = on!(&pool, pool => sql::highest(pool, resource).await).map_err(not_admitted)?;
        let mark = mark.map_or_else(|| "none".to_owned(), |mark| mark.to_string());
        say::out(format_args!("{mark}\t{resource}\n"));
        return Ok(());
    }
    let mut after = Vec::new();
    loop {
        let marks = on!(&pool, pool => sql::marks(pool, &after, PAGE).await);
        let marks = marks.map_err(not_admitted)?;
        let Some(last) = marks.last() else { return Ok(()) };
        for mark in &marks {
            match mark.parse() {
                Some((resource, token)) => say::out(format_args!("{token}\t{resource}\n")),
                None => {
                    let name = String::from_utf8_lossy(&mark.name);
                    say::out(format_args!("not a token: {:?}\t{name:?}\n", mark.number));
                }
            }
        }
        after.clone_from(&last.name);
    }
}

async fn run_raise(args: &Raise) -> Result<(), Failure> {
    let (resource, token) = (&args.resource, args.token);
    let pool = connect(&args.database.url, false, 1).await?;
    let before = on!(&pool, pool => sql::highest(pool, resource).await).map_err(not_admitted)?;
    let from = before.map_or_else(|| "none".to_owned(), |mark| mark.to_string());
    if !args.yes {
        say::error(format_args!(
            "would raise the mark of {resource} from {from} to {token}: all smaller tokens are \
             refused from then on, for good. Add --yes to do it"
        ));
        return Err(Failure(exit::USAGE, String::new()));
    }
    // Waits for nobody for long, through a pooler as well.
    on!(&pool, pool => SqlMarks::new(pool.clone()).raise(resource, token).await)
        .map_err(not_raised)?;
    say::out(format_args!("{token}\t{resource}\n"));
    Ok(())
}

async fn run_lower(args: &Lower) -> Result<(), Failure> {
    let (resource, from, token) = (&args.resource, args.from, args.token);
    let pool = connect(&args.database.url, false, 1).await?;
    if !args.yes {
        let mark = on!(&pool, pool => sql::highest(pool, resource).await).map_err(not_admitted)?;
        let mark = mark.map_or_else(|| "none".to_owned(), |mark| mark.to_string());
        say::error(format_args!(
            "the mark is {mark}; would lower the mark of {resource} from {from} to {token}: {token} \
             and all larger tokens may write from then on, also those that were refused as stale. Choose a token \
             that is not below any that was granted. Add --yes to do it"
        ));
        return Err(Failure(exit::USAGE, String::new()));
    }
    on!(&pool, pool => sql::lower(pool, resource, from, token).await).map_err(not_admitted)?;
    say::out(format_args!("{token}\t{resource}\n"));
    Ok(())
}

async fn run_prune(args: &Prune) -> Result<(), Failure> {
    let prune = sql::Prune::older_than(args.older_than).up_to(args.floor);
    let pool = connect(&args.database.url, false, 1).await?;
    let shown = |floor: Option<Token>| floor.map_or_else(|| "none".into(), |own| own.to_string());
    if args.yes {
        let pruned = on!(&pool, pool => prune.run(pool).await).map_err(not_admitted)?;
        say::out(format_args!("{} marks removed, floor {}\n", pruned.marks, shown(pruned.floor)));
        return Ok(());
    }
    let plan = on!(&pool, pool => prune.look(pool).await).map_err(not_admitted)?;
    let (marks, from, floor) = (plan.marks, shown(plan.from), shown(plan.floor));
    match plan.highest {
        None => say::error(format_args!("would remove no mark; the floor is {from}")),
        Some((name, _)) => say::error(format_args!(
            "would remove {marks} marks, and raise the floor from {from} to {floor}. The highest of them is that \
             of {}. Where a resource has no mark, {floor} and all smaller tokens are refused from then on, for \
             good. Add --floor {floor} --yes to do it",
            String::from_utf8_lossy(&name)
        )),
    }
    Err(Failure(exit::USAGE, String::new()))
}

async fn run_raise_floor(args: &RaiseFloor) -> Result<(), Failure> {
    let floor = match args.token {
        Some(token) => token,
        None => above_all_granted()?,
    };
    let pool = connect(&args.database.url, false, 1).await?;
    if !args.yes {
        say::error(format_args!(
            "would raise the floor to {floor}, if it is lower: where a resource has no mark, {floor} and all smaller \
             tokens are refused from then on, for good, and new leases in this database get larger ones. Leases on Redis \
             nodes may not: for those name a --token below what they grant next. Add --yes to do it"
        ));
        return Err(Failure(exit::USAGE, String::new()));
    }
    on!(&pool, pool => sql::raise_floor(pool, floor).await).map_err(not_admitted)?;
    say::out(format_args!("floor {floor}\n"));
    Ok(())
}

/// Returns the seconds since 2026 and six zeros, as the databases take it that notice a failover: no resource has a
/// million grants in a second.
fn above_all_granted() -> Result<Token, Failure> {
    let year_2026 = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let since = SystemTime::now().duration_since(year_2026).map_err(usage)?;
    Token::new(since.as_secs() * 1_000_000).map_err(usage)
}

fn not_migrated(error: MigrateError) -> Failure {
    let status = match &error {
        MigrateError::Locked(_) => exit::HELD,
        _ => exit::REFUSED,
    };
    Failure(status, say::chain(&error))
}

fn not_raised(error: MarksError) -> Failure {
    match error {
        MarksError::Unreachable(cause) => match cause.downcast() {
            Ok(error) => not_admitted(*error),
            Err(cause) => Failure(exit::REFUSED, say::chain(&*cause)),
        },
        error => Failure(exit::REFUSED, say::chain(&error)),
    }
}

fn not_admitted(error: AdmitError) -> Failure {
    let status = if error.is_retryable() { exit::HELD } else { exit::REFUSED };
    Failure(status, say::chain(&error))
}

fn not_protected(error: ProtectError) -> Failure {
    let status = match &error {
        ProtectError::Locked(_) => exit::HELD,
        _ => exit::REFUSED,
    };
    Failure(status, say::chain(&error))
}

fn ended(result: Result<(), Failure>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(Failure(status, text)) => {
            if !text.is_empty() {
                say::error(say::without_passwords(&text));
            }
            status
        }
    }
}
