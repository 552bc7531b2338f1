//! `fencing run`: acquires, runs the command, releases.

mod channel;
mod command;
mod family;
pub(crate) mod guard;
mod plan;
mod watch;

use std::time::Duration;

use fencing::Lease;
use fencing::lock::{AcquireError, Released};

use self::command::Running;
use crate::args::Run;
use crate::duration::show;
use crate::lock::Service;
use crate::signals::Signals;
use crate::{exit, say};

/// Runs the command while it holds the lease, and returns the exit status.
pub(crate) async fn main(run: Run) -> u8 {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            say::error(format_args!("cannot listen for signals: {error}"));
            return exit::FAILED;
        }
    };
    if run.at_least > run.ttl {
        let (least, ttl) = (show(run.at_least), show(run.ttl));
        say::error(format_args!(
            "--at-least {least} is longer than --ttl {ttl}: give --ttl {least} or more"
        ));
        return exit::USAGE;
    }
    let service = tokio::select! {
        biased;
        signal = signals.next() => return exit::by_signal(signal.as_raw()),
        service = Service::connect(&run) => service,
    };
    let service = match service {
        Ok(service) => service,
        Err(error) => {
            say::error(error);
            return exit::USAGE;
        }
    };
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        outcome = service.acquire(&run) => Ok(outcome),
    };
    match outcome {
        Ok(Ok(lease)) => {
            let status = hold(lease, &run, &mut signals).await;
            service.settle().await;
            status
        }
        Ok(Err(error)) => {
            say::error(&error);
            // Some nodes may have granted.
            service.settle().await;
            if matches!(error, AcquireError::Held { .. }) { exit::HELD } else { exit::UNAVAILABLE }
        }
        Err(signal) => {
            // The acquisition was dropped, which releases.
            service.settle().await;
            exit::by_signal(signal.as_raw())
        }
    }
}

/// Holds the lease while the command runs.
async fn hold(lease: Lease, run: &Run, signals: &mut Signals) -> u8 {
    let status = match Running::start(run, &lease).await {
        Ok(mut running) => watch::watch(&mut running, &lease, run, signals).await,
        Err(error) => {
            say::error(format_args!(
                "cannot start the guard: {error}; the command was not started"
            ));
            exit::FAILED
        }
    };
    release(lease, run.ttl).await;
    status
}

/// Releases the lease when the command has ended. A failure does not change the exit status.
async fn release(lease: Lease, ttl: Duration) {
    let (resource, token) = (lease.resource().clone(), lease.token());
    let held = !lease.valid_for().is_zero();
    match lease.release().await {
        Ok(Released::Released) => {}
        Ok(Released::Lapsed) if held => say::error(format_args!(
            "warning: {resource} token {token}: the lock was gone before it was released; another \
             client may have held it meanwhile"
        )),
        Ok(Released::Lapsed) => {}
        Err(error) => say::error(format_args!(
            "warning: {resource} token {token}: {error} (after {} at most)",
            show(ttl)
        )),
    }
}
