use fencing::Token;

/// Opens the marks in a Redis. Until then everything is refused there: a server that is new, was flushed or
/// restarted, or took the place of another one, may have forgotten marks.
///
/// Without --yes the command says what is there. It is safe where there were never any marks, and where all of them
/// are there: after a restart that lost no write (appendfsync always). Where some may be lost, give a floor.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Open {
    #[command(flatten)]
    pub(crate) place: RedisPlace,
    /// Where a resource has no higher mark, smaller tokens are refused from then on. Choose one that no token
    /// of before has passed, and see that the lock service grants larger ones. It never falls.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) floor: Option<Token>,
    /// Opens them. Without this, the command only says what it would do.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Where marks in a Redis are.
#[derive(Debug, clap::Args)]
pub(crate) struct RedisPlace {
    /// The Redis: redis://HOST, rediss://HOST or unix://PATH. Other users can see a command line, so put a URL with a
    /// password in the environment.
    #[arg(long = "marks", value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    pub(crate) url: String,
    /// The marks stand in the hash {NS}:marks.
    #[arg(long, value_name = "NS", default_value = "fencing")]
    pub(crate) namespace: String,
}

const STATUS: &str = "\
Exit status:
  0    the marks are open
  64   wrong usage, or --yes is missing
  65   the server cannot keep marks, or they have changed meanwhile
  69   the server cannot be reached";
