use std::time::Duration;

use fencing::Lease;
use fencing::lock::Loss;
use tokio::signal::unix::Signal as Stream;
use tokio::time::{MissedTickBehavior, interval};

use super::command::{GuardEvent, GuardedCommand};
use crate::duration::about;
use crate::signals::Signals;
use crate::{exit, say};

/// How many times per TTL the guard gets the end of the lease.
const REPORTS: u32 = 16;

/// Waits for the command's end, and returns the exit status. If the lease was lost as well, the order of the two
/// is unknown, and the lease counts as lost.
pub(super) async fn watch(
    running: &mut GuardedCommand,
    lease: &Lease,
    ttl: Duration,
    signals: &mut Signals,
) -> u8 {
    let mut stopping = false;
    let mut suspension = running.suspension.take();
    let mut reports = interval(ttl / REPORTS);
    reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            biased;
            event = running.next() => match event {
                Ok(GuardEvent::Stopping) => {
                    stopping = true;
                    let lost = lost_text(lease).await;
                    let next = match about(lease.valid_for()) {
                        _ if lease.valid_for().is_zero() => "is stopped".to_owned(),
                        left => format!("gets SIGTERM now and SIGKILL in {left}"),
                    };
                    say::error(format_args!("{lost}; the command {next}"));
                }
                Ok(GuardEvent::Ended(status)) => break status,
                Ok(GuardEvent::Unguarded) => {
                    say::error("the guard was killed: the command is stopped");
                    break exit::FAILED;
                }
                Err(error) => {
                    say::error(format_args!("cannot wait for the guard: {error}"));
                    break exit::FAILED;
                }
            },
            signal = signals.next() => running.pass_on(signal),
            Some(()) = suspended(&mut suspension) => running.suspend(),
            _ = reports.tick() => running.keep(lease),
        }
    };
    if stopping {
        return exit::LOST;
    }
    if lease.valid_for().is_zero() {
        let lost = lost_text(lease).await;
        say::error(format_args!(
            "{lost}; the command had ended by then, perhaps after the lease was lost, or was not started"
        ));
        return exit::LOST;
    }
    ended
}

async fn suspended(suspension: &mut Option<Stream>) -> Option<()> {
    suspension.as_mut()?.recv().await
}

/// Says which lease was lost or is about to be, and why.
async fn lost_text(lease: &Lease) -> String {
    let why = match lease.valid_for().is_zero() {
        false => "it was not renewed in time".into(),
        true => match lease.lost().await {
            Loss::Expired => format!(
                "{} because it was not renewed in time, or this process was paused",
                Loss::Expired
            ),
            loss => loss.to_string(),
        },
    };
    let causes: Vec<String> = lease.renewal_failure().iter().map(ToString::to_string).collect();
    let failure = match &causes[..] {
        [] => String::new(),
        causes => format!(" (the last renewal failed: {})", causes.join("; ")),
    };
    format!("lease lost, {} token {}: {why}{failure}", lease.resource(), lease.token())
}
