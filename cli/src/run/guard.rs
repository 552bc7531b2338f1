//! The guard: the parent of the command. It ends the command and all its descendants before the lease does,
//! whatever happens to `fencing run`: `SIGTERM` comes before the lease's end, `SIGKILL` at it.
//!
//! It learns from a socket until when the lease lasts. The end of the socket is the death of `fencing run`.

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
use super::plan::Plan;
use crate::exit::{self, Failure};
use crate::say;
use crate::signals::Signals;

/// How often the clock is read: the runtime's timers do not run while the machine is suspended.
const CLOCK_INTERVAL: Duration = Duration::from_millis(250);
/// After this long, SIGKILL should have ended everything.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs as the guard, and returns the exit status: the command's own, or that of `fencing run`.
pub(crate) async fn main() -> Result<u8, Failure> {
    match Guard::start().await {
        Ok(Ok(guard)) => Ok(guard.watch().await),
        Ok(Err(status)) => Ok(status),
        // `fencing run` has died before it said what to start.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(exit::FAILED),
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

impl Guard {
    /// Starts the command, or returns why it did not start as an exit status.
    async fn start() -> io::Result<Result<Guard, u8>> {
        let signals = Signals::listen().map_err(|Failure(_, why)| io::Error::other(why))?;
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
            return Ok(Err(exit::LOST));
        }
        let child = match command.process_group(group).stdin(input).spawn() {
            Ok(child) => child,
            Err(error) => {
                // `fencing run` says it: a terminal may stop a process in the background that writes there.
                let why = format!(" cannot run {}: {error}", program.display());
                notices.write_all(why.as_bytes()).await?;
                let missing = error.kind() == ErrorKind::NotFound;
                return Ok(Err(if missing { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE }));
            }
        };
        Ok(Ok(Guard {
            orders,
            notices,
            children,
            _signals: signals,
            command: Pid::from_child(&child),
            ended: None,
            plan: Plan { grace, deadline, alone: false, kill: None },
            complained: false,
        }))
    }

    async fn watch(mut self) -> u8 {
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
    fn status(&mut self) -> Option<u8> {
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
        Some(exit::LOST)
    }

    fn heed(&mut self, order: io::Result<Option<Vec<u8>>>) {
        let Ok(Some(order)) = order else {
            self.plan.alone = true;
            return;
        };
        match serde_json::from_slice(&order) {
            Ok(Order::Until(time)) => self.plan.until(time),
            Ok(Order::Signal(signal)) => {
                Signal::from_named_raw(signal).into_iter().for_each(|signal| self.signal(signal));
            }
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
            let left = family::all().into_iter();
            let left = left.map(|(process, state)| format!("{process} (state {state})"));
            say::error(format_args!(
                "the lease has ended, and processes still run after SIGKILL: {}; in state D a process \
                 waits for a disk or a file system",
                left.collect::<Vec<_>>().join(", ")
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

fn status(ended: ExitStatus) -> u8 {
    let by_signal = || ended.signal().map_or(u8::MAX, exit::by_signal);
    ended.code().map_or_else(by_signal, |code| u8::try_from(code).unwrap_or(u8::MAX))
}
