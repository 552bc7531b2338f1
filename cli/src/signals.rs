use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::Failure;

/// The signals that end a wait for the lock and are passed on to the command.
const PASSED_ON: [Signal; 6] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

#[derive(Default)]
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    pub(crate) fn listen() -> Result<Signals, Failure> {
        let mut signals = Signals::default();
        let added = PASSED_ON.into_iter().try_for_each(|signal| signals.add(signal));
        let failed = |error| Failure::failed(format_args!("cannot listen for signals: {error}"));
        added.map(|()| signals).map_err(failed)
    }

    /// Listens for one more, but not if this process was started to ignore it: `nohup` and the shell's `&` rely on
    /// that, and a signal that is caught here would not be ignored by the command.
    pub(crate) fn add(&mut self, wanted: Signal) -> io::Result<()> {
        if !is_ignored(wanted) {
            self.0.push((wanted, signal(SignalKind::from_raw(wanted.as_raw()))?));
        }
        Ok(())
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let came =
                self.0.iter_mut().find_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Returns whether this process was started to ignore a signal; `false` where the system does not report it.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal.as_raw() - 1)) != 0
}
