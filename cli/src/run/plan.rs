use std::time::Duration;

use rustix::process::Signal;

/// The time between two rounds of SIGKILL: there may be new descendants.
const ROUND: Duration = Duration::from_millis(10);

/// The schedule by which the guard stops the command.
pub(super) struct Plan {
    pub(super) grace: Duration,
    pub(super) deadline: Duration,
    /// Whether `fencing run` has died.
    pub(super) alone: bool,
    /// The time of SIGKILL, once SIGTERM was due.
    pub(super) kill: Option<Duration>,
}

impl Plan {
    /// Notes until when the lease lasts. A renewal is too late for a command that got SIGTERM.
    pub(super) fn until(&mut self, deadline: Duration) {
        self.deadline = deadline;
        self.kill = self.kill.map(|kill| kill.min(self.last()));
    }

    pub(super) fn due(&mut self, now: Duration) -> Option<Signal> {
        if self.kill.is_none() && (self.alone || now + self.grace >= self.deadline) {
            self.kill = Some(self.last().min(now + self.grace));
            if self.kill > Some(now) {
                return Some(Signal::TERM);
            }
        }
        self.kill.filter(|kill| *kill <= now).map(|_| Signal::KILL)
    }

    pub(super) fn pause(&self, now: Duration) -> Duration {
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
