use std::path::PathBuf;
use std::time::Duration;

use fencing::Token;
use http::{HeaderName, Uri};

use super::names::Pattern;
use crate::duration;
use crate::listen::{Listen, count};

/// Proxies a service that does not support tokens, and refuses stale requests.
///
/// A request that writes needs the header Fencing-Token of its lease. The resource is the path, without the leading
/// slash. All requests to the service must come through one such process. A request that the service has not answered
/// keeps its resource closed to newer tokens, even when the client has gone away: the proxy waits for the answer and
/// for the end of the upload, or for --quarantine if they can no longer come. See docs/reference/http.md.
#[derive(Debug, clap::Args)]
pub(crate) struct ProxyArgs {
    #[command(flatten, next_help_heading = "Service")]
    pub(super) service: ServiceArgs,
    #[command(flatten, next_help_heading = "Fence")]
    pub(super) fence: FenceArgs,
    #[command(flatten)]
    pub(super) listen: Listen,
}

#[derive(Debug, clap::Args)]
pub(super) struct ServiceArgs {
    /// The service: http://HOST:PORT, without a path.
    #[arg(long, value_name = "URL", value_parser = upstream)]
    pub(super) upstream: Uri,
    /// Speaks HTTP/2 with the service; gRPC needs it.
    #[arg(long)]
    pub(super) upstream_http2: bool,
    /// Time limit for an answer of the service, and for a pause in it, while no upload makes progress. Then the client
    /// gets a 504, and the resource stays closed until the service answers, or nothing moves for twice --quarantine.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub(super) upstream_timeout: Duration,
    /// Time for which the service may still work on a request after its answer is lost: its resource is closed to newer
    /// tokens for that long after its connection has ended. After a start all resources are closed, for --quarantine
    /// and --stop-within together. Start the next proxy only when this one has exited, with the same two settings.
    /// [default: --upstream-timeout; the proxy warns if you set less]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    quarantine: Option<Duration>,
    /// Starts without a quarantine: there was no earlier proxy, or it ended with status 0.
    #[arg(long)]
    pub(super) clean_start: bool,
    /// Time for which an upload may continue after a newer token of its resource has arrived. Then the proxy
    /// cuts it off, and the resource stays closed for --quarantine.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub(super) upload_grace: Duration,
    /// Time limit of a whole request with its answer. Then it is abandoned: its resource is closed for --quarantine.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    pub(super) longest: Duration,
    /// Requests in flight at a time, including abandoned ones. Others get a 503 at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = count)]
    pub(super) requests: usize,
}

#[derive(Debug, clap::Args)]
pub(super) struct FenceArgs {
    /// The place of the marks: sqlite:PATH, postgres://... or mysql://..., where missing tables are created; or
    /// redis://... (valkey://...), where an operator has run `fencing db marks open`.
    #[arg(long, value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    #[arg(required_unless_present = "forget_marks_on_exit", conflicts_with = "forget_marks_on_exit")]
    pub(super) marks: Option<String>,
    /// In a Redis, the marks are in the hash {NS}:marks. [default: fencing]
    #[arg(long, value_name = "NS", conflicts_with = "forget_marks_on_exit")]
    pub(super) namespace: Option<String>,
    /// Keeps the marks in this process, and loses them when it exits: then a stale token passes until a newer comes.
    #[arg(long)]
    pub(super) forget_marks_on_exit: bool,
    /// Takes the resource from this header instead of from the path. Use only a header that a gateway in front of the
    /// proxy always overwrites, whatever the client sent in it.
    #[arg(long, value_name = "NAME")]
    pub(super) resource_header: Option<HeaderName>,
    /// Names the resources of a request by its path: PATTERN=NAME[,NAME...], as in '/accounts/{id}/**=accounts/{id}'.
    /// {id} is one segment, {id:int} a number without leading zeros, {*rest} all following segments, ** at the end
    /// anything. The most specific pattern that matches decides; writes to a path that matches none are refused. A
    /// request about several resources carries a Fencing-Sequencer header for each.
    #[arg(long, value_name = "PATTERN=NAME", conflicts_with = "resource_header")]
    pub(super) resource_from: Vec<Pattern>,
    /// Requires a token for reads too.
    #[arg(long, conflicts_with = "ignore_reads")]
    pub(super) require_always: bool,
    /// Ignores the tokens of reads. Without this, a read with a token raises the mark.
    #[arg(long)]
    pub(super) ignore_reads: bool,
    /// Lets every request pass, and only reports what it would refuse. Then the proxy protects nothing.
    #[arg(long)]
    pub(super) shadow: bool,
    /// Hides the highest token from clients with a stale one.
    #[arg(long)]
    pub(super) hide_highest: bool,
    /// Refuses tokens above this one.
    #[arg(long, value_name = "TOKEN", default_value_t = Token::MAX, hide_default_value = true)]
    pub(super) ceiling: Token,
    /// Accepts only tokens that `fencing serve` has signed (header Fencing-Signature). A file with a line ID=KEY for
    /// each key that may have signed. The file is read again when it changes.
    #[arg(long, value_name = "FILE", env = "FENCING_SIGNING_KEYS", conflicts_with = "shadow")]
    pub(super) signing_keys: Option<PathBuf>,
    /// Time for which a request waits for requests with older tokens before it gets a 503.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(super) limit: Duration,
}

impl ServiceArgs {
    pub(super) fn quarantine(&self) -> Duration {
        self.quarantine.unwrap_or(self.upstream_timeout)
    }
}

fn upstream(text: &str) -> Result<Uri, String> {
    let wrong = || "give a URL like http://HOST:PORT, without a path".to_owned();
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let plain = uri.scheme_str() == Some("http")
        && uri.path_and_query().is_none_or(|path| path.as_str() == "/")
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    plain.then_some(uri).ok_or_else(wrong)
}
