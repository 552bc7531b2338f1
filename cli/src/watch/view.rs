use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use fencing::lock::Fault;
use fencing::time::{Clock, SystemClock, Time};
use fencing::{Resource, Token};

use crate::findings::{Finding, Findings};
use crate::leases::LeaseList;

/// A time of observation: by the clock that runs while the machine is suspended, and by the wall clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) time: Time,
    pub(super) wall: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Moment {
        Moment { time: SystemClock.now(), wall: SystemTime::now() }
    }

    pub(super) fn age(self, now: Moment) -> Duration {
        now.time.since(self.time)
    }

    /// The time of day in UTC.
    pub(super) fn clock(self) -> String {
        let utc = humantime::format_rfc3339_seconds(self.wall).to_string();
        utc.get(11..).unwrap_or_default().to_owned()
    }
}

/// The last answer of one source. A failure replaces it: what a node said an hour ago must not look like its state.
#[derive(Default)]
pub(super) enum Part<T> {
    #[default]
    Absent,
    Asking,
    Answered {
        at: Moment,
        /// The time since which it answers, or fails.
        since: Moment,
        answer: Result<T, String>,
    },
}

impl<T> Part<T> {
    pub(super) fn set(&mut self, at: Moment, answer: Result<T, String>) {
        let since = match self {
            Part::Answered { since, answer: last, .. } if last.is_ok() == answer.is_ok() => *since,
            _ => at,
        };
        *self = Part::Answered { at, since, answer };
    }

    pub(super) fn answer(&self) -> Option<&T> {
        if let Part::Answered { answer: Ok(answer), .. } = self { Some(answer) } else { None }
    }
}

#[derive(Default)]
pub(super) struct MarkList {
    pub(super) count: u64,
    pub(super) floor: Option<Token>,
    /// Every write is refused.
    pub(super) closed: bool,
    pub(super) of: BTreeMap<Resource, Option<Token>>,
}

#[derive(Default)]
pub(super) struct View {
    /// The lock service, and the shown locks.
    pub(super) place: String,
    pub(super) every: Duration,
    /// The age from which an answer is called old.
    pub(super) fresh: Duration,
    pub(super) nodes: Part<Findings>,
    /// The state of each node in a word, and since when it was seen.
    pub(super) states: BTreeMap<String, (&'static str, Moment)>,
    pub(super) leases: Part<LeaseList>,
    pub(super) marks: Part<MarkList>,
    pub(super) paused: Option<Moment>,
    /// The first lease on the screen, and the leases that it has room for.
    pub(super) first: usize,
    pub(super) page: usize,
}

impl View {
    pub(super) fn new(every: Duration, budget: Duration) -> View {
        let fresh = every + 2 * budget + Duration::from_secs(1);
        View { every, fresh, leases: Part::Asking, ..View::default() }
    }

    pub(super) fn set_nodes(&mut self, now: Moment, answer: Result<Findings, String>) {
        let all = answer.as_ref().map_or(&[][..], |findings| &findings.nodes).iter();
        let states = all.map(|node| {
            let state = state(node);
            let same = self.states.get(&node.node).filter(|(last, _)| *last == state);
            (node.node.clone(), (state, same.map_or(now, |(_, since)| *since)))
        });
        self.states = states.collect();
        self.nodes.set(now, answer);
    }

    pub(super) fn on_screen(&self) -> Vec<Resource> {
        let all = self.leases.answer().map_or(&[][..], |leases| &leases.all).iter();
        all.skip(self.first).take(self.page).map(|lease| lease.resource.clone()).collect()
    }
}

fn state(node: &Finding) -> &'static str {
    match &node.problem {
        None => "grants",
        Some(Fault::Quarantined(_)) => "QUARANTINED",
        Some(fault) if fault.is_silent() => "NO ANSWER",
        // It answers, and grants nothing.
        Some(_) => "CLOSED",
    }
}
