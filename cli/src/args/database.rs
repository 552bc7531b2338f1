use std::time::Duration;

use clap::Subcommand;
use fencing::{Resource, Token};

use super::open::OpenArgs;
use crate::duration;

/// Creates the tables and functions of the fence, or brings them up to date.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseUrl,
    /// Prints the SQL instead, for other tools. The scheme of the URL is enough then.
    #[arg(long)]
    pub(crate) print: bool,
    /// Prints the SQL that removes the fence, the marks and the leases. Stop all writers before you run it.
    #[arg(long, requires = "print")]
    pub(crate) down: bool,
}

/// Lists the marks: for each resource, the highest token that the database has seen.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS, args_conflicts_with_subcommands = true)]
pub(crate) struct MarksArgs {
    /// The database: sqlite:PATH, postgres://... or mysql://...
    #[arg(long = "database", value_name = "URL", env = "FENCING_DATABASE", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Lists the mark of this resource only.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Option<Resource>,
    #[command(subcommand)]
    pub(crate) action: Option<MarksAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MarksAction {
    Raise(RaiseArgs),
    Lower(LowerArgs),
    Prune(PruneArgs),
    RaiseFloor(RaiseFloorArgs),
    Open(OpenArgs),
}

/// Raises the mark of a resource by hand, for example after the lock service has lost its tokens.
/// It never lowers one.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct RaiseArgs {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The resource whose mark is raised.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Resource,
    /// The new mark: all smaller tokens are refused from then on.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Token,
}

/// Lowers the mark of a resource by hand: the way back after a token that was never granted has
/// raised it. The table fencing_audit records who did it.
///
/// All tokens from the new mark on may write again, also those that were refused as stale. Choose
/// one that is not below any that was granted.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct LowerArgs {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The resource whose mark is lowered.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Resource,
    /// The mark as it is now. If it has moved since you looked, nothing is lowered.
    #[arg(long, value_name = "MARK")]
    pub(crate) from: Token,
    /// The new mark: this token and all larger ones may write from then on.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Token,
}

/// Removes marks that were not raised for a long time. The floor takes their place: where a
/// resource has no mark, the highest token that was removed, and all smaller ones, are refused for
/// good.
///
/// Choose an age that is longer than any holder keeps one token. Marks of leases in the same database that
/// have not ended stay. `SqlLock` grants tokens above the floor; with Redlock, see that the floor stays
/// below the tokens that the nodes grant now.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) change: Change,
    /// For how long a mark must not have been raised: 90d, 12h.
    #[arg(long, value_name = "AGE", value_parser = duration::parse)]
    pub(crate) older_than: Duration,
    /// The highest floor: marks above it stay. Without --yes the command says where the floor would be.
    #[arg(long, value_name = "TOKEN", default_value_t = Token::MAX, hide_default_value = true)]
    pub(crate) floor: Token,
}

/// Raises the floor above every token that a lease in this database may have been granted, after leases were lost: a
/// replica was promoted that was behind, or a backup was restored. Lost tokens are not granted again then, and are
/// refused where the next holder has written. A floor never falls.
///
/// Do not use it where the tokens come from Redis nodes: they would be below the floor.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct RaiseFloorArgs {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The new floor: tokens are granted above it. Without this, the seconds since 2026 by the clock of this machine,
    /// and six zeros.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Token>,
}

/// Makes the database refuse every write to a table without a token, or with a stale one.
///
/// The client presents its token with the resource: on PostgreSQL with
/// SELECT fencing_present('34 files/a') in the transaction that writes, on MySQL with
/// SET @fencing_sequencer = '34 files/a' before each statement that writes, on SQLite in the
/// column fencing_token of the write.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct ProtectArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseUrl,
    /// The table, as NAME or SCHEMA.NAME.
    #[arg(long, value_name = "TABLE", required_unless_present = "check")]
    pub(crate) table: Option<String>,
    /// The column that names the resource of a row. Several, with commas between them, name it
    /// together: a,b makes the resource x/y of x and y.
    #[arg(
        long,
        value_name = "COLUMN",
        value_delimiter = ',',
        required_unless_present_any = ["resource", "check", "remove"]
    )]
    pub(crate) column: Vec<String>,
    /// The text to put before the column's value: files/ makes the resource files/a of a.
    #[arg(long, value_name = "TEXT", requires = "column", conflicts_with = "resource")]
    pub(crate) prefix: Option<String>,
    /// The one resource that all rows belong to.
    #[arg(long, value_name = "NAME", conflicts_with = "column")]
    pub(crate) resource: Option<Resource>,
    /// Lists the protected tables, or this one, instead: whether their triggers are whole, and
    /// which writes get past them. The exit status is 65 if one is not whole, or none is there.
    #[arg(long, conflicts_with_all = ["column", "resource", "print", "remove"])]
    pub(crate) check: bool,
    /// Prints what --check finds as a JSON array: an object for each table.
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
    /// Puts the table into shadow mode: nothing is refused. What would be is kept in the table
    /// fencing_refusals, and --check shows it. The same command without --shadow switches the
    /// protection on.
    #[arg(long, conflicts_with_all = ["check", "remove"])]
    pub(crate) shadow: bool,
    /// Takes the triggers off the table instead: anybody may write to it from then on.
    #[arg(long, conflicts_with_all = ["column", "resource", "print"])]
    pub(crate) remove: bool,
    /// Removes the triggers. Without this, --remove only says what it would do.
    #[arg(long, requires = "remove")]
    pub(crate) yes: bool,
    /// Prints the SQL instead. The scheme of the URL is enough then.
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DatabaseUrl {
    /// The database: sqlite:PATH, postgres://... or mysql://... Others can read a command
    /// line, so put a URL with a password into the environment. ?sslmode=require (MySQL:
    /// ?ssl-mode=REQUIRED) asks for TLS.
    #[arg(long = "database", value_name = "URL", env = "FENCING_DATABASE", hide_env_values = true)]
    pub(crate) url: String,
}

/// A database, and whether it may be changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) database: DatabaseUrl,
    /// Does it. Without this, the command only says what it would do.
    #[arg(long)]
    pub(crate) yes: bool,
}

const STATUS: &str = "\
Exit status:
  0    done
  64   wrong usage
  65   refused: the mark is higher, the database refuses, or a table is not protected as it should be
  69   the database cannot be reached
  75   others kept it locked: try again";
