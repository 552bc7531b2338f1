use std::pin::pin;

use fencing::Lease;
use fencing::lock::Loss;
use tokio::signal::unix::Signal as Stream;
use tokio::time::{MissedTickBehavior, interval};

use super::command::{Event, Running};
use crate::args::Run;
use crate::duration::about;
use crate::signals::Signals;
use crate::{exit, say};

/// How many times per TTL the guard hears until when the lease lasts.
const REPORTS: u32 = 16;

/// Waits for the command's end, and returns the exit status. If the lease's loss has happened as well, their
/// order is unknown, and the lease counts as lost.
pub(super) async fn watch(
    running: &mut Running,
    lease: &Lease,
    run: &Run,
    signals: &mut Signals,
) -> u8 {
    let mut lost = pin!(lease.lost());
    let (mut loss, mut stopping) = (None, false);
    let mut suspension = running.suspension.take();
    let mut reports = interval(run.ttl / REPORTS);
    reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            biased;
            lost = &mut lost, if loss.is_none() => {
                // Nothing is left of it.
                running.keep(lease);
                loss = Some(lost);
            }
            event = running.next() => match event {
                Ok(Event::Stopping) => {
                    stopping = true;
                    let text = lost_text(lease, loss);
                    let kill = about(lease.valid_for());
                    say::error(match loss {
                        Some(_) => format!("{text}; the command is stopped"),
                        None => format!("{text}; the command gets SIGTERM now and SIGKILL in {kill}"),
                    });
                }
                Ok(Event::Ended(status)) => break status,
                Ok(Event::Unguarded) => {
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
    // Timers may lag behind the clock.
    if lease.valid_for().is_zero() {
        let loss = match loss {
            Some(loss) => loss,
            None => lost.await,
        };
        let text = lost_text(lease, Some(loss));
        say::error(format_args!(
            "{text}; the command had ended by then, perhaps after the lease was lost, or was not started"
        ));
        return exit::LOST;
    }
    ended
}

async fn suspended(suspension: &mut Option<Stream>) -> Option<()> {
    suspension.as_mut()?.recv().await
}

/// Says which lease was lost, and why.
fn lost_text(lease: &Lease, loss: Option<Loss>) -> String {
    let why = match loss {
        None => "it was not renewed in time".into(),
        Some(Loss::Expired) => format!(
            "{} because it was not renewed in time, or this process was paused",
            Loss::Expired
        ),
        Some(loss) => loss.to_string(),
    };
    let causes: Vec<String> = lease.renewal_failure().iter().map(ToString::to_string).collect();
    let failure = match &causes[..] {
        [] => String::new(),
        causes => format!(" (the last renewal failed: {})", causes.join("; ")),
    };
    format!("lease lost, {} token {}: {why}{failure}", lease.resource(), lease.token())
}
