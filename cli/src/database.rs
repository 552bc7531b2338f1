use clap::Subcommand;
use fencing::Resource;
use fencing::sql::{self, Database, Protect, Protected};
use serde_json::{Value, json};
use sqlx::{MySql, Postgres, Sqlite};

use crate::exit::{Failure, Status};
use crate::marks::{self, MarksArgs};
use crate::pool::{DatabaseKind, DatabaseUrl, Pool, kind, on, with_timeout};
use crate::say;

/// Manages the fence in a database: its tables, the tables that it protects, and the marks.
#[derive(Debug, Subcommand)]
pub(crate) enum DatabaseAction {
    /// Creates the tables and functions of the fence, or brings them up to date.
    Migrate {
        #[command(flatten)]
        database: DatabaseUrl,
        /// Prints the SQL instead, for other tools. Then the scheme of the URL is enough.
        #[arg(long)]
        print: bool,
        /// Prints the SQL that removes the fence, the marks and the leases. Stop all writers before you run it.
        #[arg(long, requires = "print")]
        down: bool,
    },
    Marks(MarksArgs),
    Protect(ProtectArgs),
}

/// Makes the database refuse every write to a table without a token, or with a stale one.
///
/// The client presents token and resource: on PostgreSQL by SELECT fencing_present('34 files/a') in the transaction, on
/// MySQL by SET @fencing_sequencer = '34 files/a' before each write, on SQLite in the column fencing_token.
#[derive(Debug, clap::Args)]
pub(crate) struct ProtectArgs {
    #[command(flatten)]
    database: DatabaseUrl,
    /// The table, as NAME or SCHEMA.NAME.
    #[arg(long, value_name = "TABLE", required_unless_present = "check")]
    table: Option<String>,
    /// The column that names the resource of a row. Several name it together: with a,b, the values x and y make x/y.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    #[arg(required_unless_present_any = ["resource", "check", "remove"])]
    column: Vec<String>,
    /// The text to put before the column's value: with files/, the value a makes the resource files/a.
    #[arg(long, value_name = "TEXT", requires = "column", conflicts_with = "resource")]
    prefix: Option<String>,
    /// The one resource that all rows belong to.
    #[arg(long, value_name = "NAME", conflicts_with = "column")]
    resource: Option<Resource>,
    /// Instead lists the protected tables, or only --table: whether their triggers are whole, and which writes they do
    /// not see. The exit status is 65 if a table is not whole, or none is protected.
    #[arg(long, conflicts_with_all = ["column", "resource", "print", "remove"])]
    check: bool,
    /// Prints what --check finds as a JSON array: an object for each table.
    #[arg(long, requires = "check")]
    json: bool,
    /// Puts the table into shadow mode, on PostgreSQL: nothing is refused, and the server's log has a warning for each
    /// write that would be. The same command without --shadow switches the protection on.
    #[arg(long, conflicts_with_all = ["check", "remove"])]
    shadow: bool,
    /// Removes the triggers from the table instead: its writes are no longer fenced.
    #[arg(long, conflicts_with_all = ["column", "resource", "print"])]
    remove: bool,
    /// Removes the triggers. Without this, --remove only says what it would do.
    #[arg(long, requires = "remove")]
    yes: bool,
    /// Prints the SQL instead. Then the scheme of the URL is enough.
    #[arg(long)]
    print: bool,
}

const NO_BEGIN: &str = "-- Leave BEGIN and COMMIT out for a tool that opens a transaction itself.\n\n";
const COMMENTS: &str =
    "-- Use `mysql --comments`: otherwise the client changes the routines, and `--check` reports it.\n\n";

pub(crate) async fn main(action: DatabaseAction) -> Result<Status, Failure> {
    match action {
        DatabaseAction::Migrate { database, print: true, down } => match kind(&database.url)? {
            // No writer may come between a trigger that is dropped and its successor.
            DatabaseKind::Sqlite => print_migrations::<Sqlite>(down, NO_BEGIN, "BEGIN IMMEDIATE;\n", "\nCOMMIT;\n"),
            DatabaseKind::Postgres => print_migrations::<Postgres>(down, "", "", ""),
            // The client would cut a procedure at each semicolon.
            DatabaseKind::MySql => print_migrations::<MySql>(down, COMMENTS, "DELIMITER $$\n", "$$\nDELIMITER ;\n"),
        },
        DatabaseAction::Migrate { database, .. } => {
            on!(&database.connect(true).await?, pool => with_timeout(sql::migrate(pool)).await)?
        }
        DatabaseAction::Marks(args) => marks::main(args).await?,
        DatabaseAction::Protect(args) => protect(args).await?,
    }
    Ok(Status::DONE)
}

/// Prints the SQL for a tool that runs each part between `before` and `after`.
fn print_migrations<DB: Database>(down: bool, advice: &str, before: &str, after: &str) {
    let part = |name: &str, sql: &str| {
        say::out(format_args!("-- {name}\n{before}{}\n{after}\n", sql.trim_end()));
    };
    if down {
        return part("remove", sql::removal::<DB>());
    }
    say::out(advice);
    for (version, what, sql) in sql::migrations::<DB>() {
        part(&format!("{version:04} {what}"), sql);
    }
}

async fn protect(args: ProtectArgs) -> Result<(), Failure> {
    if args.check {
        return check(&args.database.connect(false).await?, args.table.as_deref(), args.json).await;
    }
    let Some(table) = &args.table else { return Err(Failure::usage("give --table")) };
    if args.remove {
        return remove(&args.database.connect(false).await?, table, args.yes).await;
    }
    let columns: Vec<&str> = args.column.iter().map(String::as_str).collect();
    let prefix = args.prefix.as_deref().unwrap_or("");
    let protect = match args.resource {
        None => Protect::rows_by(table, &columns).and_then(|protect| protect.prefix(prefix)),
        Some(resource) => Protect::whole(table, resource),
    };
    let protect = protect.map_err(Failure::usage)?;
    let protect = if args.shadow { protect.shadow() } else { protect };
    if args.print {
        let first = "-- First, once: ALTER TABLE ... ADD COLUMN fencing_token ANY\n";
        let (advice, statements) = match kind(&args.database.url)? {
            DatabaseKind::Sqlite => (first, protect.statements::<Sqlite>()?),
            DatabaseKind::Postgres => ("", protect.statements::<Postgres>()?),
            DatabaseKind::MySql => ("", protect.statements::<MySql>()?),
        };
        say::out(advice);
        statements.iter().for_each(|statement| say::out(format_args!("{statement};\n")));
        return Ok(());
    }
    on!(&args.database.connect(false).await?, pool => with_timeout(protect.apply(pool)).await)
}

async fn check(pool: &Pool, table: Option<&str>, json: bool) -> Result<(), Failure> {
    let tables = on!(pool, pool => with_timeout(sql::protected(pool, table)).await)?;
    let shadowed = tables.iter().filter(|table| table.shadow).count();
    if json {
        let array = tables.iter().map(described).collect();
        say::out(format_args!("{:#}\n", Value::Array(array)));
    } else {
        tables.iter().for_each(print);
    }
    let (all, broken) = (tables.len(), tables.iter().filter(|table| !table.faults.is_empty()).count());
    Err(Failure::refused(match (all, broken, shadowed) {
        (0, ..) => "no table is protected, or this user may not see triggers".to_owned(),
        (_, 0, 0) => return Ok(()),
        (_, 0, _) => format!(
            "{shadowed} of {all} tables are in shadow mode, where nothing is refused: protect them without --shadow"
        ),
        _ => format!("{broken} of {all} tables are not protected as they should be: fix the faults above"),
    }))
}

async fn remove(pool: &Pool, table: &str, yes: bool) -> Result<(), Failure> {
    let found = on!(pool, pool => with_timeout(sql::protected(pool, Some(table))).await)?;
    let Some(found) = found.into_iter().next() else { return Ok(()) };
    if !found.is_protected() {
        return Err(Failure::refused(format_args!("the table {table} is not protected")));
    }
    let would = format!("would remove the triggers from the table {table}");
    Failure::usage_unless(yes, format_args!("{would}: its writes would no longer be fenced. Add --yes to do it"))?;
    on!(pool, pool => with_timeout(found.remove(pool)).await)
}

fn described(table: &Protected) -> Value {
    json!({
        "table": table.table,
        "resource": table.resource,
        "whole": table.is_whole(),
        "protected": table.is_protected(),
        "shadow": table.shadow,
        "faults": table.faults,
        "unseen": table.unseen,
    })
}

fn print(table: &Protected) {
    let state = match (table.faults.is_empty(), table.shadow) {
        (false, _) => "broken",
        (true, true) => "shadow",
        (true, false) => "whole",
    };
    say::out(format_args!("{state}\t{}\t{}\n", table.table, table.resource));
    table.faults.iter().for_each(|fault| say::out(format_args!("\tfault: {fault}\n")));
    table.unseen.iter().for_each(|unseen| say::out(format_args!("\tdoes not see: {unseen}\n")));
}
