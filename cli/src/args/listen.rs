use std::net::SocketAddr;
use std::time::Duration;

use crate::duration;

/// Where a service listens, and the bounds of what clients may do there.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Listen {
    /// The address for requests, in HTTP/1 and HTTP/2 without TLS. Port 0 takes a free port, and the
    /// first lines of the output say which.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7433")]
    pub(crate) listen: SocketAddr,
    /// A second port for operators: /livez, /readyz, /metrics and /openapi.yaml.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7434")]
    pub(crate) status: SocketAddr,
    /// How long requests may take to end after SIGTERM. A second signal ends the process at once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) stop_within: Duration,
    /// How long a client may take to send the head of a request, and may keep its connection open without
    /// a request.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) header_timeout: Duration,
    /// How long a client may pause while it sends a body, or reads an answer.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) client_timeout: Duration,
    /// How many connections may be open at a time. One more ends those that have had no request for a second, or
    /// waits while all of them have one.
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = some)]
    pub(crate) connections: usize,
}

/// Reads a number of things of which there is one at least.
pub(crate) fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "give a number from 1 to 1000000".to_owned())
}
