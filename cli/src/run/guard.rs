//! The guard: the parent of the command. It stops the command and all its descendants before the lease ends, whatever
//! happens to `fencing run`: `SIGTERM` comes before the lease's end, `SIGKILL` at it. A socket tells it until
//! when the lease lasts. When that closes, `fencing run` is dead.

use std::io::{self, ErrorKind, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Split};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::sleep;

use super::channel::{self, GuardStart, Order, now};
use super::family;
use crate::exit::{Failure, Status};
use crate::say;
use crate::signals::Signals;

/// How often the clock is read: the runtime's timers do not run while the machine is suspended.
const CLOCK_INTERVAL: Duration = Duration::from_millis(250);
/// After this long, SIGKILL should have ended everything.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// The time between two rounds of SIGKILL: there may be new descendants.
const ROUND: Duration = Duration::from_millis(10);

/// Runs as the guard, and returns the exit status: the command's own, or that of `fencing run`.
pub(crate) async fn main() -> Result<Status, Failure> {
    match Guard::start().await {
        Ok(Started::Running(guard)) => Ok(guard.watch().await),
        Ok(Started::NotStarted(status)) => Ok(status),
        // `fencing run` has died before it said what to start.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Status::FAILED),
        Err(error) => Err(Failure::failed(format_args!("the guard cannot start the command: {error}"))),
    }
}

struct Guard {
    orders: Split<BufReader<OwnedReadHalf>>,
    notices: OwnedWriteHalf,
    children: Stream,
    /// Caught, so that none of them ends the guard. `fencing run` passes its own on.
    _signals: Signals,
    command: Pid,
    ended: Option<ExitStatus>,
    plan: Plan,
    complained: bool,
}

/// Whether the command runs. If not, the exit status says why.
enum Started {
    Running(Box<Guard>),
    NotStarted(Status),
}

impl Guard {
    /// Starts the command that `fencing run` names.
    async fn start() -> io::Result<Started> {
        let signals = Signals::listen().map_err(|failure| io::Error::other(failure.message))?;
        let children = signal(SignalKind::child())?;
        family::adopt()?;
        let socket = Socket::from(stdin().as_fd().try_clone_to_owned()?);
        let input = channel::receive(&socket)?;
        socket.set_nonblocking(true)?;
        let (orders, mut notices) = UnixStream::from_std(socket)?.into_split();
        let mut orders = BufReader::new(orders).split(b'\n');
        let start = orders.next_segment().await?.ok_or(ErrorKind::UnexpectedEof)?;
        let GuardStart { group, grace, deadline, command } = serde_json::from_slice(&start)?;
        let (program, arguments) = command.split_first().ok_or(ErrorKind::InvalidData)?;
        let mut command = Command::new(program);
        command.args(arguments);
        if now() >= deadline {
            return Ok(Started::NotStarted(Status::LOST));
        }
        let child = match command.process_group(group).stdin(input).spawn() {
            Ok(child) => child,
            Err(error) => {
                // `fencing run` says it: a terminal may stop a process in the background that writes there.
                let why = format!(" cannot run {}: {error}", program.display());
                notices.write_all(why.as_bytes()).await?;
                let missing = error.kind() == ErrorKind::NotFound;
                return Ok(Started::NotStarted(if missing { Status::NOT_FOUND } else { Status::NOT_EXECUTABLE }));
            }
        };
        Ok(Started::Running(Box::new(Guard {
            orders,
            notices,
            children,
            _signals: signals,
            command: Pid::from_child(&child),
            ended: None,
            plan: Plan { grace, deadline, alone: false, kill: None },
            complained: false,
        })))
    }

    async fn watch(mut self) -> Status {
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            let pause = self.plan.pause(now()).min(CLOCK_INTERVAL);
            // First the orders: the lease may have been renewed since this process ran last.
            tokio::select! {
                biased;
                order = self.orders.next_segment(), if !self.plan.alone => self.heed(order),
                _ = self.children.recv() => {}
                () = sleep(pause) => self.act(),
            }
        }
    }

    /// Returns the exit status, if the command has ended or everything was stopped.
    fn status(&mut self) -> Option<Status> {
        let (command, ended) = (self.command, &mut self.ended);
        let left = family::reap(|child, status| {
            if child == command {
                *ended = Some(ExitStatus::from_raw(status.as_raw()));
            }
        });
        if self.plan.kill.is_none() {
            return self.ended.map(status);
        }
        // Elsewhere than on Linux a group can outlive the children.
        if left || test_kill_process_group(self.command).is_ok() {
            return None;
        }
        if self.plan.alone {
            say::error("`fencing run` was killed: the command is stopped");
        }
        Some(Status::LOST)
    }

    fn heed(&mut self, order: io::Result<Option<Vec<u8>>>) {
        let Ok(Some(order)) = order else {
            self.plan.alone = true;
            return;
        };
        match serde_json::from_slice(&order) {
            Ok(Order::Until(time)) => self.plan.until(time),
            Ok(Order::Signal(signal)) => Signal::from_named_raw(signal).into_iter().for_each(|it| self.signal(it)),
            Err(_) => {}
        }
    }

    fn act(&mut self) {
        let now = now();
        let before = self.plan.kill;
        let Some(due) = self.plan.due(now) else { return };
        self.signal(due);
        if due == Signal::TERM {
            // A stopped process takes SIGTERM only when it continues.
            self.signal(Signal::CONT);
        }
        if before.is_none() {
            let _ = self.notices.try_write(b"\n");
        }
        if !self.complained && before.is_some_and(|kill| now >= kill + KILL_TIMEOUT) {
            self.complained = true;
            let left = family::all().into_iter().map(|(process, state)| format!("{process} (state {state})"));
            say::error(format_args!(
                "the lease has ended, and processes still run after SIGKILL: {}; in state D a process \
                 waits for a disk or a file system",
                say::listed(left, ", ")
            ));
        }
    }

    fn signal(&self, signal: Signal) {
        let sent = family::signal(signal) || kill_process_group(self.command, signal).is_ok();
        if !sent && self.ended.is_none() {
            let _ = kill_process(self.command, signal);
        }
    }
}

fn status(ended: ExitStatus) -> Status {
    let by_signal = || ended.signal().map_or(Status(u8::MAX), Status::by_signal);
    ended.code().map_or_else(by_signal, Status::from_code)
}

/// The schedule by which the guard stops the command.
struct Plan {
    grace: Duration,
    deadline: Duration,
    /// Whether `fencing run` has died.
    alone: bool,
    /// The time of SIGKILL, once SIGTERM was due.
    kill: Option<Duration>,
}

impl Plan {
    /// Notes until when the lease lasts. A renewal is too late for a command that got SIGTERM.
    fn until(&mut self, deadline: Duration) {
        self.deadline = deadline;
        self.kill = self.kill.map(|kill| kill.min(self.last()));
    }

    fn due(&mut self, now: Duration) -> Option<Signal> {
        if self.kill.is_none() && (self.alone || now + self.grace >= self.deadline) {
            self.kill = Some(self.last().min(now + self.grace));
            if self.kill > Some(now) {
                return Some(Signal::TERM);
            }
        }
        self.kill.filter(|kill| *kill <= now).map(|_| Signal::KILL)
    }

    fn pause(&self, now: Duration) -> Duration {
        match self.kill {
            Some(kill) if kill <= now => ROUND,
            Some(kill) => kill - now,
            None if self.alone => Duration::ZERO,
            None => self.deadline.saturating_sub(self.grace + now),
        }
    }

    /// Returns when SIGKILL comes at the latest: it takes a moment where the machine is busy.
    fn last(&self) -> Duration {
        self.deadline.saturating_sub(self.grace / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Returns the signals and when they are due, up to the first SIGKILL.
    fn signals(plan: &mut Plan, mut now: Duration) -> Vec<(Duration, Signal)> {
        let mut signals = Vec::new();
        while signals.last().is_none_or(|(_, signal)| *signal != Signal::KILL) {
            now += plan.pause(now);
            signals.extend(plan.due(now).map(|signal| (now, signal)));
        }
        signals
    }

    fn plan() -> Plan {
        Plan { grace: secs(8), deadline: secs(100), alone: false, kill: None }
    }

    #[test]
    fn both_signals_come_before_the_end_of_the_lease() {
        let expected = [(secs(92), Signal::TERM), (secs(99), Signal::KILL)];
        assert_eq!(signals(&mut plan(), secs(1)), expected);
        let mut renewed = plan();
        assert_eq!(renewed.due(secs(91)), None);
        renewed.until(secs(200));
        let expected = [(secs(192), Signal::TERM), (secs(199), Signal::KILL)];
        assert_eq!(signals(&mut renewed, secs(91)), expected);
    }

    #[test]
    fn a_renewal_after_sigterm_is_too_late() {
        let mut plan = plan();
        assert_eq!(plan.due(secs(92)), Some(Signal::TERM));
        plan.until(secs(200));
        assert_eq!(signals(&mut plan, secs(92)), [(secs(99), Signal::KILL)]);
        // A loss is not.
        plan.until(secs(90));
        assert_eq!(plan.kill, Some(secs(89)));
    }

    #[test]
    fn nothing_is_waited_for_when_the_lease_is_over() {
        assert_eq!(signals(&mut plan(), secs(101)), [(secs(101), Signal::KILL)]);
    }

    #[test]
    fn alone_it_stops_the_command_at_once_and_never_after_the_lease() {
        let alone = || Plan { alone: true, ..plan() };
        let expected = [(secs(10), Signal::TERM), (secs(18), Signal::KILL)];
        assert_eq!(signals(&mut alone(), secs(10)), expected);
        let expected = [(secs(95), Signal::TERM), (secs(99), Signal::KILL)];
        assert_eq!(signals(&mut alone(), secs(95)), expected);
    }
}
