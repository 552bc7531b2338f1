use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::Failure;

/// The signals that end a wait for the lock and are passed on to the command.
const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The signals that come in from now on.
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// Listens, but not for signals that this process was started to ignore: `nohup` and the
    /// shell's `&` rely on that, and a signal that is caught here would not be ignored by the
    /// command.
    pub(crate) fn listen() -> Result<Signals, Failure> {
        let ignored = ignored();
        let wanted = PASSED_ON.iter().filter(|signal| ignored & bit(**signal) == 0);
        let stream =
            |wanted: &Signal| Ok((*wanted, signal(SignalKind::from_raw(wanted.as_raw()))?));
        let streams = wanted.map(stream).collect::<io::Result<_>>();
        let failed = |error| Failure::failed(format_args!("cannot listen for signals: {error}"));
        streams.map(Signals).map_err(failed)
    }

    /// Listens for Ctrl-Z, unless that is ignored.
    pub(crate) fn suspension() -> Option<Stream> {
        let heeded = ignored() & bit(Signal::TSTP) == 0;
        heeded.then(|| signal(SignalKind::from_raw(Signal::TSTP.as_raw())).ok()).flatten()
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn bit(signal: Signal) -> u64 {
    1u64.checked_shl(signal.as_raw().unsigned_abs().saturating_sub(1)).unwrap_or(0)
}

/// Returns the mask of the signals that this process was started to ignore; zero where the
/// system does not report it.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
