use std::future::Future;
use std::process::ExitStatus;

use fencing::Lease;
use fencing::lock::Loss;

use super::command::{Running, status};
use super::target::GRACE;
use crate::duration::show;
use crate::signals::Signals;
use crate::{exit, say};

/// Waits for the command's end or the lease's loss, whichever comes first. If both have
/// happened, their order is unknown, and the lease counts as lost.
pub(super) async fn watch(running: &mut Running, lease: &Lease, signals: &mut Signals) -> u8 {
    let lost = lease.lost();
    tokio::pin!(lost);
    let mut suspension = running.suspension.take();
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
            running.stop().await;
            exit::FAILED
        }
    }
}

async fn suspended(suspension: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    suspension.as_mut()?.recv().await
}

fn lapsed(lease: &Lease, ended: ExitStatus, loss: Loss) {
    say::error(format_args!(
        "{}; the command had ended by then ({ended}), perhaps after the lease was lost",
        lost_text(lease, loss)
    ));
}

async fn stop(running: &mut Running, lease: &Lease, loss: Loss, signals: &mut Signals) -> u8 {
    say::error(format_args!(
        "{}; the command gets SIGTERM now and SIGKILL in {}",
        lost_text(lease, loss),
        show(GRACE)
    ));
    until_done(running.stop(), signals).await;
    exit::LOST
}

/// Waits for the command's stop. Signals that come meanwhile change nothing.
async fn until_done(work: impl Future<Output = ()>, signals: &mut Signals) {
    tokio::pin!(work);
    loop {
        tokio::select! {
            () = &mut work => return,
            _ = signals.next() => {}
        }
    }
}

/// Says which lease was lost, and why.
pub(super) fn lost_text(lease: &Lease, loss: Loss) -> String {
    let why = match loss {
        Loss::Expired => " because it was not renewed in time, or this process was paused",
        _ => "",
    };
    let causes: Vec<String> = lease.renewal_failure().iter().map(ToString::to_string).collect();
    let failure = match &causes[..] {
        [] => String::new(),
        causes => format!(" (the last renewal failed: {})", causes.join("; ")),
    };
    format!("lease lost, {} token {}: {loss}{why}{failure}", lease.resource(), lease.token())
}
