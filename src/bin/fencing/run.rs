use std::future::Future;
use std::io::ErrorKind;
use std::process::ExitStatus;
use std::time::Duration;

use fencing::Lease;
use fencing::lock::{AcquireError, Loss, Released};

use crate::args::Run;
use crate::command::{Running, status};
use crate::duration::show;
use crate::guard::Guard;
use crate::lock::Service;
use crate::signals::Signals;
use crate::{exit, say};

/// How long the command may take to end after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Acquires, runs the command, releases.
pub(crate) async fn main(run: Run) -> u8 {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            say::error(format_args!("no signals: {error}"));
            return exit::FAILED;
        }
    };
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

async fn hold(lease: Lease, run: &Run, signals: &mut Signals) -> u8 {
    let mut guard = match Guard::start() {
        Ok(guard) => Some(guard),
        Err(error) => {
            say::error(format_args!("no guard, the command would outlive a kill: {error}"));
            None
        }
    };
    // This process may have slept since the grant.
    if lease.valid_for().is_zero() {
        let loss = lease.lost().await;
        say::error(format_args!("{}; the command was not started", lost_text(&lease, loss)));
        drop(guard);
        release(lease, run.ttl).await;
        return exit::LOST;
    }
    let mut running = match Running::start(&run.command, &lease) {
        Ok(running) => running,
        Err(error) => {
            let name = run.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            say::error(format_args!("cannot run {name}: {error}"));
            release(lease, run.ttl).await;
            let missing = error.kind() == ErrorKind::NotFound;
            return if missing { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE };
        }
    };
    if let Some(Err(error)) = guard.as_mut().map(|guard| guard.watch(running.target())) {
        say::error(format_args!("no guard, the command would outlive a kill: {error}"));
    }
    let own = watch(&mut running, &lease, signals).await;
    drop(guard);
    release(lease, run.ttl).await;
    own
}

/// Waits for the command's end or the lease's loss, whichever is first. If both have
/// happened nobody knows which was, and the lease counts as lost.
async fn watch(running: &mut Running, lease: &Lease, signals: &mut Signals) -> u8 {
    let lost = lease.lost();
    tokio::pin!(lost);
    let mut suspension = running.target().is_group().then(Signals::suspension).flatten();
    let ended = loop {
        tokio::select! {
            biased;
            loss = &mut lost => return stop(running, lease, loss, signals).await,
            ended = running.ended() => break ended,
            signal = signals.next() => running.pass_on(signal),
            Some(()) = suspended(&mut suspension) => running.suspend(),
        }
    };
    match ended {
        // Timers may lag behind the clock.
        Ok(ended) if lease.valid_for().is_zero() => {
            lapsed(lease, ended, lost.await);
            exit::LOST
        }
        Ok(ended) => status(ended),
        Err(error) => {
            say::error(format_args!("cannot wait for the command: {error}"));
            running.stop(GRACE).await;
            exit::FAILED
        }
    }
}

async fn suspended(suspension: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    suspension.as_mut()?.recv().await
}

fn lapsed(lease: &Lease, ended: ExitStatus, loss: Loss) {
    say::error(format_args!(
        "{}; the command had ended by then ({ended}), perhaps after the loss",
        lost_text(lease, loss)
    ));
}

async fn stop(running: &mut Running, lease: &Lease, loss: Loss, signals: &mut Signals) -> u8 {
    let patience = show(GRACE);
    say::error(format_args!(
        "{}; the command gets SIGTERM now and SIGKILL in {patience}",
        lost_text(lease, loss)
    ));
    until_done(running.stop(GRACE), signals).await;
    exit::LOST
}

/// The command is being stopped already: whatever signal comes changes nothing.
async fn until_done(work: impl Future<Output = ()>, signals: &mut Signals) {
    tokio::pin!(work);
    loop {
        tokio::select! {
            () = &mut work => return,
            _ = signals.next() => {}
        }
    }
}

fn lost_text(lease: &Lease, loss: Loss) -> String {
    let why = match loss {
        Loss::Expired => ": it was not renewed in time, or this process was paused",
        _ => "",
    };
    format!("lease lost, {} token {}: {loss}{why}", lease.resource(), lease.token())
}

/// The command has ended; what comes of the release does not change its exit status.
async fn release(lease: Lease, ttl: Duration) {
    let (resource, token) = (lease.resource().clone(), lease.token());
    let held = !lease.valid_for().is_zero();
    match lease.release().await {
        Ok(Released::Released) => {}
        Ok(Released::Lapsed) if held => say::error(format_args!(
            "warning: {resource} token {token}: there was no such lock any more; \
             another may have held it already"
        )),
        Ok(Released::Lapsed) => {}
        Err(error) => say::error(format_args!(
            "warning: {resource} token {token}: {error} ({} at most)",
            show(ttl)
        )),
    }
}
