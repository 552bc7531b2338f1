mod channel;
mod command;
mod family;
pub(crate) mod guard;

use std::ffi::OsString;
use std::time::Duration;

use fencing::lock::{AcquireError, Fault, Loss, NodeCause, Released};
use fencing::{Lease, Resource};
use tokio::time::{MissedTickBehavior, interval};

use self::command::{GuardEvent, GuardedCommand};
use crate::duration::{self, about, show};
use crate::exit::{Failure, Status};
use crate::lock_service::{ChosenLock, LockArgs};
use crate::say;
use crate::signals::Signals;

/// Runs a command while it holds the lease of a resource.
///
/// The command finds FENCING_TOKEN and FENCING_RESOURCE in its environment. Pass the token on
/// with every write that the lease is to protect: a lease can be lost at any moment.
///
/// If the lease is not renewed, the command and all its descendants get SIGTERM a quarter of the TTL before the
/// lease ends (5 s at most), and SIGKILL just before it ends; if it is lost without warning, SIGKILL at once. A guard
/// process, the command's parent, does this even if `fencing` is killed or stopped, but not if both are killed at once.
///
/// `fencing` passes INT, TERM, HUP, QUIT, USR1 and USR2 on to all of them. Processes that the command leaves in the
/// background when it ends continue without the lease. From a terminal the command stays in the terminal's process
/// group, so that Ctrl-C and Ctrl-Z work as usual; while suspended, its lease is not renewed. On systems other than
/// Linux, only the process group is stopped; from a terminal, only the command.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    lock: LockArgs,
    /// The resource to lock: 1 to 255 bytes, no control characters.
    #[arg(long, value_name = "NAME")]
    resource: Resource,
    /// TTL of the lease: how long the lock stays held if `fencing` dies. The lease is renewed every third of it.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    ttl: Duration,
    /// Wait limit for the lock; 0s asks once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    wait: Duration,
    /// Minimum hold time, at most the TTL. Without it, a job shorter than the clock skew of two machines runs on both.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    at_least: Duration,
    /// The holder's name, for display: 1 to 64 bytes of printable ASCII, without spaces, quotation marks or
    /// backslashes, and without a dot at the end [env: FENCING_HOLDER] [default: host:pid].
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// The command and its arguments.
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Updates of the lease's end to the guard per TTL.
const REPORTS: u32 = 16;

pub(crate) async fn main(run: RunArgs) -> Result<Status, Failure> {
    let mut signals = Signals::listen()?;
    let (least, ttl) = (show(run.at_least), show(run.ttl));
    let too_long = format_args!("--at-least {least} is longer than --ttl {ttl}: give --ttl {least} or more");
    Failure::usage_unless(run.at_least <= run.ttl, too_long)?;
    let options = run.lock.options()?.ttl(run.ttl).wait(run.wait).lock_at_least_for(run.at_least);
    let options = if let Some(name) = &run.holder { options.holder(name) } else { options };
    let service = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Status::by_signal(signal.as_raw())),
        service = ChosenLock::open(options) => service?,
    };
    let outcome = tokio::select! {
        biased;
        // The acquisition is dropped, which releases.
        signal = signals.next() => Ok(Status::by_signal(signal.as_raw())),
        outcome = service.acquire(&run.resource, run.wait) => match outcome {
            Ok(lease) => Ok(hold(lease, &run, &mut signals).await),
            Err(error) => {
                let status = match (&error, error.causes()) {
                    (AcquireError::Held { .. }, _) => Status::HELD,
                    (AcquireError::Unavailable { .. }, [one]) => Failure::of(&one.cause).status,
                    (_, [NodeCause { cause: Fault::Denied(_), .. }]) => Status::REFUSED,
                    _ => Status::UNAVAILABLE,
                };
                Err(Failure::new(status, error))
            }
        },
    };
    // Some nodes may have granted.
    service.settle().await;
    outcome
}

async fn hold(lease: Lease, run: &RunArgs, signals: &mut Signals) -> Status {
    let status = match GuardedCommand::start(run, &lease, signals).await {
        Ok(mut running) => watch(&mut running, &lease, run.ttl, signals).await,
        Err(error) => {
            say::error(format_args!("cannot start the guard: {error}; the command was not started"));
            Status::FAILED
        }
    };
    release(lease, run.ttl).await;
    status
}

/// Waits for the command's end, and returns the exit status: that of a loss, even if the command ended first.
async fn watch(running: &mut GuardedCommand, lease: &Lease, ttl: Duration, signals: &mut Signals) -> Status {
    let mut stopping = false;
    let mut reports = interval(ttl / REPORTS);
    reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            biased;
            event = running.next() => match event {
                Ok(GuardEvent::Stopping) => {
                    stopping = true;
                    let lost = lost_text(lease).await;
                    let left = lease.valid_for();
                    let next = match left.is_zero() {
                        true => "is stopped".to_owned(),
                        false => format!("gets SIGTERM now and SIGKILL in {}", about(left)),
                    };
                    say::error(format_args!("{lost}; the command {next}"));
                }
                Ok(GuardEvent::Ended(status)) => break status,
                Err(why) => {
                    say::error(why);
                    break Status::FAILED;
                }
            },
            signal = signals.next() => running.pass_on(signal),
            _ = reports.tick() => running.keep(lease),
        }
    };
    if stopping {
        return Status::LOST;
    }
    if lease.valid_for().is_zero() {
        let lost = lost_text(lease).await;
        say::error(format_args!("{lost}; the command had already ended, perhaps after the loss, or was not started"));
        return Status::LOST;
    }
    ended
}

async fn lost_text(lease: &Lease) -> String {
    let why = match lease.valid_for().is_zero() {
        false => "it was not renewed in time".into(),
        true => match lease.lost().await {
            loss @ Loss::Expired => format!("{loss} because it was not renewed in time, or this process was paused"),
            loss => loss.to_string(),
        },
    };
    let causes = say::listed(lease.renewal_failure(), "; ");
    let failure = if causes.is_empty() { String::new() } else { format!(" (the last renewal failed: {causes})") };
    format!("lease lost, {} token {}: {why}{failure}", lease.resource(), lease.token())
}

/// Releases the lease when the command has ended. A failure does not change the exit status.
async fn release(lease: Lease, ttl: Duration) {
    let (resource, token) = (lease.resource().clone(), lease.token());
    let held = !lease.valid_for().is_zero();
    match lease.release().await {
        Ok(Released::Lapsed) if held => say::error(format_args!(
            "warning: {resource} token {token}: the lock was gone before it was released; another \
             client may have held it meanwhile"
        )),
        Ok(Released::Released | Released::Lapsed) => {}
        Err(error) => {
            say::error(format_args!("warning: {resource} token {token}: {error} (after {} at most)", show(ttl)))
        }
    }
}
