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

use self::command::GuardedCommand;
use crate::args::RunArgs;
use crate::duration::show;
use crate::exit::{self, Failure};
use crate::lock::{ChosenLock, LockOptions};
use crate::say;
use crate::signals::Signals;

/// Runs the command while it holds the lease, and returns the exit status.
pub(crate) async fn main(run: RunArgs) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    if run.at_least > run.ttl {
        let (least, ttl) = (show(run.at_least), show(run.ttl));
        return Err(Failure::usage(format_args!(
            "--at-least {least} is longer than --ttl {ttl}: give --ttl {least} or more"
        )));
    }
    let terms = LockOptions {
        ttl: run.ttl,
        wait: run.wait,
        at_least: run.at_least,
        node_budget: run.node_budget,
        renew: true,
        holder: run.holder.clone(),
    };
    let service = tokio::select! {
        biased;
        signal = signals.next() => return Ok(exit::by_signal(signal.as_raw())),
        service = ChosenLock::open(&run.place, &terms) => service?,
    };
    let outcome = tokio::select! {
        biased;
        // The acquisition is dropped, which releases.
        signal = signals.next() => Ok(exit::by_signal(signal.as_raw())),
        outcome = service.acquire(&run) => match outcome {
            Ok(lease) => Ok(hold(lease, &run, &mut signals).await),
            Err(error @ AcquireError::Held { .. }) => Err(Failure::new(exit::HELD, error)),
            Err(error) => Err(Failure::unavailable(error)),
        },
    };
    // Some nodes may have granted.
    service.settle().await;
    outcome
}

/// Holds the lease while the command runs.
async fn hold(lease: Lease, run: &RunArgs, signals: &mut Signals) -> u8 {
    let status = match GuardedCommand::start(run, &lease).await {
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
