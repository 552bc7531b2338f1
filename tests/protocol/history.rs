//! The checker of histories, on histories that break each promise.

use support::history::Invariant::{self, I1, I2, I3, I4, I5, I6};
use support::history::{Answer, Attempt, Event, History, Outcome, Report, Stored, Write};

fn attempt_on(resource: &str, client: u32, asked: u64, answered: u64, outcome: Outcome) -> Event {
    Event::Attempt(Attempt { client, resource: resource.into(), asked, answered, outcome })
}

fn attempt(client: u32, asked: u64, answered: u64, outcome: Outcome) -> Event {
    attempt_on("r", client, asked, answered, outcome)
}

fn granted(client: u32, asked: u64, answered: u64, token: u64) -> Event {
    attempt(client, asked, answered, Outcome::Granted(token))
}

fn write(client: u32, token: u64, sent: u64, answered: u64, answer: Answer) -> Event {
    let value = format!("{client} at {sent}");
    Event::Write(Write { client, resource: "r".into(), token, value, sent, answered, answer })
}

fn stored(client: u32, token: u64, sent: u64) -> Stored {
    Stored { resource: "r".into(), token, value: format!("{client} at {sent}") }
}

/// Two leases, the first one's late write refused, and both clients well at the end.
fn good() -> History {
    let accepted = vec![stored(1, 33, 30), stored(2, 34, 60), stored(1, 35, 120), stored(2, 36, 140)];
    History {
        events: vec![
            granted(1, 10, 20, 33),
            write(1, 33, 30, 31, Answer::Accepted),
            attempt(2, 32, 33, Outcome::Held),
            attempt(2, 34, 40, Outcome::NoQuorum),
            Event::Outage { client: None, from: 33, to: 41 },
            granted(2, 45, 50, 34),
            write(2, 34, 60, 61, Answer::Accepted),
            write(1, 33, 65, 70, Answer::Refused(34)),
            write(1, 33, 71, 72, Answer::InDoubt),
            write(1, 33, 73, 74, Answer::Failed),
            Event::Healed(100),
            granted(1, 110, 115, 35),
            write(1, 35, 120, 121, Answer::Accepted),
            granted(2, 130, 135, 36),
            write(2, 36, 140, 141, Answer::Accepted),
        ],
        stored: [("r".to_owned(), stored(2, 36, 140))].into(),
        accepted,
    }
}

fn shared(client: u32, asked: u64, answered: u64, token: u64) -> Event {
    attempt(client, asked, answered, Outcome::Shared(token))
}

/// What the checker finds when `spoil` has been at the good history.
fn found(spoil: impl FnOnce(&mut History)) -> Vec<Invariant> {
    let mut history = good();
    spoil(&mut history);
    let report = Report::new(0, &history);
    let mut found: Vec<Invariant> = report.violations.iter().map(|found| found.invariant).collect();
    found.sort();
    found.dedup();
    found
}

fn with(events: impl IntoIterator<Item = Event>) -> Vec<Invariant> {
    found(|history| history.events.extend(events))
}

#[test]
fn a_good_history_passes_and_is_counted() {
    let report = Report::new(7, &good());
    assert!(report.violations.is_empty(), "{report}");
    assert_eq!((report.attempts, report.leases, report.writes), (6, 4, 7));
    assert_eq!((report.accepted, report.in_doubt), (4, 1));
    assert_eq!((report.stale, report.stale_refused, report.stale_accepted), (2, 1, 0));
    let text = report.to_string();
    assert!(text.contains("seed 7, commit "), "{text}");
    assert!(text.contains("2 stale writes attempted, 1 refused, 0 accepted"), "{text}");
}

#[test]
fn i1_a_token_granted_twice() {
    // At the same time, so that no order is broken. And client 3 is never seen to write.
    assert_eq!(with([granted(3, 131, 136, 36)]), [I1, I6]);
    assert_eq!(with([attempt_on("s", 1, 111, 116, Outcome::Granted(35))]), []);
}

#[test]
fn i2_a_later_grant_with_a_smaller_token() {
    assert_eq!(with([granted(1, 150, 151, 32)]), [I2]);
    // Asked for before the other answer: either order is right.
    assert_eq!(with([granted(1, 18, 151, 32)]), []);
}

#[test]
fn i3_a_stale_write_accepted() {
    let late = |history: &mut History| {
        history.events.push(write(1, 33, 65, 70, Answer::Accepted));
        history.accepted.insert(2, stored(1, 33, 65));
        history.events.retain(|event| *event != write(1, 33, 65, 70, Answer::Refused(34)));
    };
    assert_eq!(found(late), [I3]);
    let mut history = good();
    late(&mut history);
    assert_eq!(Report::new(0, &history).stale_accepted, 1);
    // In the log only: the client never heard of it.
    let silent = |history: &mut History| history.accepted.insert(2, stored(1, 33, 71));
    assert_eq!(found(silent), [I3]);
    // Only the answers show it: the log has them the other way round.
    let reordered = |history: &mut History| {
        history.events.push(write(1, 33, 63, 64, Answer::Accepted));
        history.accepted.insert(1, stored(1, 33, 63));
    };
    assert_eq!(found(reordered), [I3]);
}

#[test]
fn i4_what_is_stored_is_not_the_replay() {
    let older = |history: &mut History| drop(history.stored.insert("r".into(), stored(1, 35, 120)));
    assert_eq!(found(older), [I4]);
    assert_eq!(found(|history| history.stored.clear()), [I4]);
    let invented = |history: &mut History| {
        history.accepted.push(stored(3, 36, 150));
        history.stored.insert("r".into(), stored(3, 36, 150));
    };
    assert_eq!(found(invented), [I4]);
}

#[test]
fn i5_what_was_told_is_not_so() {
    let lost = |history: &mut History| drop(history.accepted.remove(1));
    assert_eq!(found(lost), [I5]);
    for answer in [Answer::Refused(36), Answer::Failed] {
        let untold = |history: &mut History| {
            history.events.push(write(1, 35, 122, 123, answer));
            history.accepted.insert(3, stored(1, 35, 122));
        };
        assert_eq!(found(untold), [I5], "{answer:?}");
    }
    let no_reason = write(1, 35, 122, 123, Answer::Refused(35));
    assert_eq!(with([no_reason]), [I5]);
    let renamed = |history: &mut History| history.accepted[2].token = 34;
    assert_eq!(found(renamed), [I5]);
    let outage = || Event::Outage { client: Some(1), from: 200, to: 210 };
    for outcome in [Outcome::Held, Outcome::Granted(40)] {
        assert_eq!(with([attempt(1, 201, 202, outcome), outage()]), [I5], "{outcome:?}");
    }
    // It may have been granted in the moment before the outage.
    let before = granted(1, 199, 202, 40);
    assert_eq!(with([before, outage(), attempt(2, 203, 204, Outcome::Held)]), []);
}

#[test]
fn i6_somebody_never_comes_back() {
    let silent = |history: &mut History| {
        history.events.retain(|event| !matches!(event, Event::Write(write) if write.sent == 140));
        history.accepted.pop();
        history.stored.insert("r".into(), stored(1, 35, 120));
    };
    assert_eq!(found(silent), [I6]);
    assert_eq!(with([attempt(3, 150, 160, Outcome::NoQuorum)]), [I6]);
    // It only ever joins others.
    let joins = |history: &mut History| {
        for event in &mut history.events {
            if let Event::Attempt(Attempt { outcome, .. }) = event
                && *outcome == Outcome::Granted(36)
            {
                *outcome = Outcome::Shared(36);
            }
        }
    };
    assert_eq!(found(joins), [I6]);
}

#[test]
fn leases_that_share_a_lock_may_have_one_token() {
    let together = || vec![shared(1, 210, 220, 40), shared(2, 230, 240, 40)];
    let then = |event| [together(), vec![event]].concat();
    assert_eq!(with(together()), []);
    assert_eq!(with(then(granted(1, 250, 260, 41))), []);
    // One that holds the lock alone has a token of its own, and a larger one.
    assert_eq!(with(then(granted(1, 215, 260, 40))), [I1]);
    assert_eq!(with(then(granted(1, 250, 260, 39))), [I2]);
    assert_eq!(with(then(shared(1, 250, 260, 39))), [I2]);
    let after = vec![granted(1, 210, 220, 40), shared(2, 230, 240, 40)];
    assert_eq!(with(after), [I1, I2]);
}

/// A reader whose part is over is stale once a later writer has written, and refused. Readers make no reader stale.
#[test]
fn a_reader_is_stale_after_a_writer_only() {
    let with = |late: Answer, accepted: Vec<Stored>| {
        found(|history| {
            history.events.extend([
                shared(1, 210, 220, 40),
                shared(2, 211, 221, 40),
                write(1, 40, 230, 231, Answer::Accepted),
                write(2, 40, 232, 233, Answer::Accepted),
                granted(2, 240, 250, 41),
                write(2, 41, 260, 261, Answer::Accepted),
                write(1, 40, 270, 271, late),
            ]);
            let last = accepted.last().cloned();
            history.accepted.extend(accepted);
            history.stored.extend(last.map(|last| (last.resource.clone(), last)));
        })
    };
    let before = || vec![stored(1, 40, 230), stored(2, 40, 232), stored(2, 41, 260)];
    assert_eq!(with(Answer::Refused(41), before()), []);
    let after = [before(), vec![stored(1, 40, 270)]].concat();
    assert_eq!(with(Answer::Accepted, after), [I3, I4]);
    // Refused because of another reader's token.
    assert_eq!(with(Answer::Refused(40), before()), [I5]);
}

#[test]
fn several_resources_of_one_call_keep_the_order_of_each() {
    let both = |asked: u64, [r, s]: [u64; 2]| {
        let second = attempt_on("s", 1, asked, asked + 10, Outcome::Granted(s));
        vec![granted(1, asked, asked + 10, r), second]
    };
    let report = |events: Vec<Event>| {
        let mut history = good();
        history.events.extend(events);
        Report::new(0, &history)
    };
    let then = |tokens| report([both(210, [40, 7]), both(230, tokens)].concat());
    let good = then([41, 8]);
    assert!(good.violations.is_empty(), "{good}");
    assert_eq!((good.leases, good.several, good.shared, good.joined), (8, 2, 0, 0));
    assert!(then([41, 6]).violates(I2));
    assert!(then([41, 7]).violates(I1));
    // Parts in a lock, of which two have one token.
    let parts = vec![shared(1, 210, 220, 40), shared(2, 211, 221, 40), shared(1, 230, 240, 41)];
    let report = report(parts);
    assert_eq!((report.leases, report.several, report.shared, report.joined), (7, 0, 3, 2));
    assert!(report.to_string().contains("3 of the leases shared, 2 of them with another"));
}
