use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Answer, At, Event, History, Invariant, Outcome, Report, Stored, Violation, Write};

pub(super) fn report(seed: u64, history: &History) -> Report {
    let mut report = Report { seed, ..Report::default() };
    tokens(history, &mut report);
    modes(history, &mut report);
    log(history, &mut report);
    writes(history, &mut report);
    outages(history, &mut report);
    recovery(history, &mut report);
    report
}

fn breach(report: &mut Report, invariant: Invariant, how: String) {
    report.violations.push(Violation { invariant, how });
}

/// Times at which something with a token was settled, and what the largest token was by then.
#[derive(Default)]
struct Largest(Vec<(At, u64)>);

impl Largest {
    fn of(mut settled: Vec<(At, u64)>) -> Largest {
        settled.sort_unstable();
        let mut most = 0;
        for (_, token) in &mut settled {
            most = most.max(*token);
            *token = most;
        }
        Largest(settled)
    }

    /// The largest that was settled strictly before `at`.
    fn before(&self, at: At) -> Option<u64> {
        let count = self.0.partition_point(|(settled, _)| *settled < at);
        count.checked_sub(1).and_then(|last| self.0.get(last)).map(|(_, token)| *token)
    }
}

fn by_resource<'a, T>(items: impl Iterator<Item = (&'a str, T)>) -> BTreeMap<&'a str, Vec<T>> {
    let mut map: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    items.for_each(|(resource, item)| map.entry(resource).or_default().push(item));
    map
}

/// I1 and I2.
fn tokens(history: &History, report: &mut Report) {
    report.attempts = history.attempts().count() as u64;
    let granted = history.attempts().filter_map(|attempt| Some((attempt, attempt.outcome.token()?)));
    for (resource, grants) in by_resource(granted.map(|grant| (grant.0.resource.as_str(), grant))) {
        report.leases += grants.len() as u64;
        let mut seen = BTreeMap::new();
        for (attempt, token) in &grants {
            let shared = attempt.outcome.is_shared();
            let before = seen.insert(*token, shared);
            if before.is_some_and(|before| !before || !shared) {
                breach(report, Invariant::I1, format!("{resource}: token {token} granted twice"));
            }
        }
        let answered = |shared: bool| {
            let answered = grants.iter().filter(|(attempt, _)| attempt.outcome.is_shared() == shared);
            Largest::of(answered.map(|(attempt, token)| (attempt.answered, *token)).collect())
        };
        let (alone, together) = (answered(false), answered(true));
        for (attempt, token) in &grants {
            // Those who share the lock may have one token.
            let most = if attempt.outcome.is_shared() { token + 1 } else { *token };
            let alone = alone.before(attempt.asked).filter(|earlier| earlier >= token);
            let together = together.before(attempt.asked).filter(|earlier| *earlier >= most);
            if let Some(earlier) = alone.max(together) {
                let how = format!("{resource}: token {token} was asked for after the answer with {earlier}");
                breach(report, Invariant::I2, how);
            }
        }
    }
}

/// How much of the work was shared, and how much was about several resources.
fn modes(history: &History, report: &mut Report) {
    let mut parts: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    let mut calls: BTreeMap<(u32, At, At), u64> = BTreeMap::new();
    for attempt in history.attempts() {
        let Some(token) = attempt.outcome.token() else { continue };
        if attempt.outcome.is_shared() {
            *parts.entry((&attempt.resource, token)).or_default() += 1;
        }
        // A client makes one call at a time.
        *calls.entry((attempt.client, attempt.asked, attempt.answered)).or_default() += 1;
    }
    report.shared = parts.values().sum();
    report.joined = parts.values().filter(|parts| **parts > 1).sum();
    report.several = calls.values().filter(|grants| **grants > 1).count() as u64;
}

/// I3 and I4 by the storage's own log.
fn log(history: &History, report: &mut Report) {
    let mut last: BTreeMap<&str, (&Stored, u64)> = BTreeMap::new();
    for stored in &history.accepted {
        let before = last.get(stored.resource.as_str()).map_or(0, |(_, highest)| *highest);
        if stored.token < before {
            report.stale_accepted += 1;
            breach(report, Invariant::I3, format!("{}: {} accepted after {before}", stored.resource, stored.token));
        }
        last.insert(&stored.resource, (stored, before.max(stored.token)));
    }
    let resources: BTreeSet<&str> = last.keys().copied().chain(history.stored.keys().map(String::as_str)).collect();
    for resource in resources {
        let (replay, end) = (last.get(resource).map(|(last, _)| *last), history.stored.get(resource));
        if replay != end {
            breach(report, Invariant::I4, format!("{resource}: {end:?} is stored, the replay gives {replay:?}"));
        }
        // Where tokens never fall, the last of the largest token is what must be there.
        let most = last.get(resource).map_or(0, |(_, highest)| *highest);
        if end.is_some_and(|end| end.token < most) {
            breach(report, Invariant::I4, format!("{resource}: what {most} wrote was overwritten by a smaller token"));
        }
    }
}

/// I3 as the clients saw it, and I5 of the writes.
fn writes(history: &History, report: &mut Report) {
    let mut log: HashMap<(&str, &str), Vec<u64>> = HashMap::new();
    for stored in &history.accepted {
        log.entry((&stored.resource, &stored.value)).or_default().push(stored.token);
    }
    let accepted = history.writes().filter(|write| write.answer == Answer::Accepted);
    let accepted_at = by_resource(accepted.map(|write| (write.resource.as_str(), (write.answered, write.token))));
    let accepted_at: BTreeMap<_, _> =
        accepted_at.into_iter().map(|(resource, writes)| (resource, Largest::of(writes))).collect();
    let mut known = BTreeSet::new();
    for write in history.writes() {
        let Write { resource, token, value, answer, .. } = write;
        report.writes += 1;
        known.insert((resource.as_str(), value.as_str()));
        let seen = accepted_at.get(resource.as_str()).and_then(|writes| writes.before(write.sent));
        let newer = seen.filter(|seen| seen > token);
        let stored = log.get(&(resource.as_str(), value.as_str()));
        if stored.is_some_and(|tokens| tokens.iter().any(|stored| stored != token)) {
            breach(report, Invariant::I5, format!("{resource}: {value} was written under another token than {token}"));
        }
        match answer {
            Answer::Accepted => {
                report.accepted += 1;
                if let Some(newer) = newer {
                    breach(
                        report,
                        Invariant::I3,
                        format!("{resource}: {value} was accepted with {token} after {newer}"),
                    );
                }
                if stored.is_none() {
                    breach(
                        report,
                        Invariant::I5,
                        format!("{resource}: {value} was answered as written, but is not stored"),
                    );
                }
            }
            Answer::Refused(highest) => {
                report.stale_refused += 1;
                if highest <= token {
                    breach(report, Invariant::I5, format!("{resource}: {token} refused because of {highest}"));
                }
            }
            Answer::InDoubt => {
                report.in_doubt += 1;
                report.stale += u64::from(newer.is_some() && stored.is_none());
            }
            Answer::Failed => {}
        }
        if matches!(answer, Answer::Refused(_) | Answer::Failed) && stored.is_some() {
            breach(report, Invariant::I5, format!("{resource}: {value} was answered as not written, but is stored"));
        }
    }
    for (resource, value) in log.keys().filter(|written| !known.contains(*written)) {
        breach(report, Invariant::I4, format!("{resource}: nobody wrote {value}"));
    }
    report.stale += report.stale_refused + report.stale_accepted;
}

/// I5 of the attempts: without a majority nothing is granted, and nothing is "held".
fn outages(history: &History, report: &mut Report) {
    for event in &history.events {
        let Event::Outage { client, from, to } = event else { continue };
        let within = history.attempts().filter(|attempt| {
            client.is_none_or(|client| client == attempt.client) && attempt.asked > *from && attempt.answered < *to
        });
        for attempt in within.filter(|attempt| attempt.outcome != Outcome::NoQuorum) {
            breach(report, Invariant::I5, format!("no majority answered, yet the client got {attempt:?}"));
        }
    }
}

/// I6.
fn recovery(history: &History, report: &mut Report) {
    let clients: BTreeSet<u32> = history.attempts().map(|attempt| attempt.client).collect();
    let healed = |event: &Event| if let Event::Healed(at) = event { Some(*at) } else { None };
    // Once is at the end; what is healed in between is none of this.
    let Some(healed) = history.events.iter().filter_map(healed).max() else { return };
    for client in clients {
        let leased = history.attempts().any(|attempt| {
            // One that holds it alone: others who share it keep nobody from sharing it as well.
            let alone = matches!(attempt.outcome, Outcome::Granted(_));
            attempt.client == client && alone && attempt.asked >= healed
        });
        let well = |write: &Write| write.client == client && write.answer == Answer::Accepted && write.sent >= healed;
        if !leased || !history.writes().any(well) {
            breach(report, Invariant::I6, format!("client {client} is still without a lease or a write after the end"));
        }
    }
}
