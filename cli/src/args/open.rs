use fencing::Token;
use fencing::redis::MarksState;

/// Opens the marks in a Redis. Until then everything is refused there: a server that is new, was flushed or
/// restarted, or took the place of another one, may have forgotten marks.
///
/// Without --yes the command says what is there. It is safe where there were never any marks, and where all of them
/// are there: after a restart that lost no write (appendfsync always). Where some may be lost, give a floor.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    pub(crate) place: RedisPlace,
    /// Where a resource has no higher mark, smaller tokens are refused from then on. Choose one that no token
    /// of before has passed, and see that the lock service grants larger ones. It never falls: after a typo,
    /// no token below passes.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) floor: Option<Token>,
    /// Says that a --floor above all marks that are there, and above the floor, is meant, and is no typo.
    #[arg(long, requires = "floor")]
    pub(crate) above_marks: bool,
    /// The state of the marks when you looked: the word that the command prints without --yes. If they have changed since,
    /// nothing is opened.
    #[arg(long, value_name = "WORD")]
    pub(crate) seen: Option<MarksState>,
    /// Opens them as they were --seen. Without this, the command only says what it would do.
    #[arg(long, requires = "seen")]
    pub(crate) yes: bool,
}

/// The namespace of marks, if none is given.
pub(crate) const NAMESPACE: &str = "fencing";

/// Where marks in a Redis are.
#[derive(Debug, clap::Args)]
pub(crate) struct RedisPlace {
    /// The Redis: redis://HOST, rediss://HOST or unix://PATH; valkey:// and valkeys:// mean the same. Other users can see a command line, so put a URL with a
    /// password in the environment.
    #[arg(long = "marks", value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    pub(crate) url: String,
    /// The marks are in the hash {NS}:marks.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    pub(crate) namespace: String,
}

const STATUS: &str = "\
Exit status:
  0    the marks are open
  64   wrong usage, --yes is missing, or the floor is above all marks
  65   the server cannot keep marks, or they have changed meanwhile
  69   the server cannot be reached";
