//! A schedule for each rule of the protocol that one can show.

use std::iter::from_fn;
use std::time::Duration;

use fencing_protocol::{
    Acquire, Fault, Lost, Machine, NonEmpty, Nonce, Readmit, ReadmitError, Reply, Request, Resource, StartOrder,
};

use crate::directed::world::{Open, TTL, World, acquire, resource, start_order};

#[test]
fn a_blank_fleet_starts_from_its_clocks_and_waits_out_the_second() {
    let mut fleet = World::blank(5);
    let outcome = fleet.acquire_on(&[0, 1, 2, 3, 4]);
    let Err(Lost::NoQuorum { granted: 0, faults }) = outcome else { panic!("{outcome:?}") };
    assert!(faults.iter().all(|(_, fault)| *fault == Fault::NotAdmitted));
    fleet.back(3).unwrap();
    let outcome = fleet.acquire_on(&[0, 1, 2, 3, 4]);
    assert!(matches!(outcome, Err(Lost::NoQuorum { .. })), "{outcome:?}");
    fleet.wait(Duration::from_secs(1));
    assert_eq!(fleet.lease_on(&[0, 1, 2, 3, 4]).get(), 1_000_000_001);
}

#[test]
fn two_total_losses_do_not_share_an_era() {
    let mut fleet = World::started(3);
    let before = fleet.lease_on(&[0, 1, 2]);
    (0..3).for_each(|node| fleet.forget(node));
    fleet.back(0).unwrap();
    fleet.wait(Duration::from_secs(1));
    assert!(fleet.lease_on(&[0, 1, 2]) > before);
}

#[test]
fn a_start_takes_an_era_above_each_promise_that_it_reads() {
    let mut fleet = World::blank(3);
    let (nonce, promised) = (Nonce(7), 5000);
    fleet.ask(2, &Request::Prepare { nonce, from: None });
    fleet.ask(2, &Request::Reserve { era: promised, memory: Some(nonce) });
    fleet.back(0).unwrap();
    assert!(fleet.era(0) > promised);
}

#[test]
fn a_flush_or_a_restart_between_prepare_and_activate_is_noticed() {
    let mut fleet = World::started(3);
    let nonce = Nonce(9);
    let activate = Request::Activate { nonce, era: 2000, collect: false, quarantine: TTL, new: false };
    for restarts in [false, true] {
        fleet.forget(0);
        fleet.ask(0, &Request::Prepare { nonce, from: None });
        // With all of its data: it was prepared in an older life.
        let copy = fleet.servers[0].1.clone();
        match restarts {
            true => fleet.restart(0, copy),
            false => fleet.servers[0].1.forget(),
        }
        assert_eq!(fleet.ask(0, &activate), Reply::Forgotten, "{restarts}");
    }
    fleet.ask(0, &Request::Prepare { nonce, from: None });
    assert_eq!(fleet.ask(0, &activate), Reply::Activated);
}

/// It begins an era above its own promise, and stays closed for its own locks.
#[test]
fn a_node_that_comes_back_with_its_data_stands_by_it() {
    let mut fleet = World::started(3);
    let outcome = fleet.acquire_on(&[0]);
    assert!(outcome.is_err());
    let promised = fleet.era(0) + 10;
    fleet.ask(0, &Request::Reserve { era: promised, memory: None });
    let store = fleet.servers[0].1.clone();
    fleet.restart(0, store);
    fleet.back(0).unwrap();
    assert!(fleet.era(0) > promised);
    let Reply::Report { quarantine, .. } = fleet.ask(0, &Request::Inspect) else { panic!() };
    assert_eq!(quarantine, Some(TTL));
}

#[test]
fn a_node_that_grants_a_part_of_several_has_no_vote() {
    let mut fleet = World::started(3);
    let attempt = fleet.terms();
    let other = Resource::new("other").unwrap();
    let granted = fleet.ask(0, &acquire(attempt.owner));
    let held = Reply::Held { remaining: TTL, shared: false, holder: None };
    // Nor has one that answers more or less than it was asked.
    for replies in [vec![granted.clone(), held], vec![granted.clone()], vec![granted; 3]] {
        let resources = NonEmpty::from((resource(), vec![other.clone()]));
        let mut all = Acquire::new(1, attempt, resources, fleet.now);
        all.on_reply(0.into(), Ok(Reply::Several(replies)));
        let Some(Err(Lost::NoQuorum { faults, .. })) = all.outcome(fleet.now) else { panic!() };
        assert_eq!(faults.len(), 1);
    }
}

/// The network repeats the grant of a node that is sent the token by then: the answer to that still counts.
#[test]
fn a_repeated_grant_is_no_answer_to_the_publish() {
    let mut fleet = World::started(3);
    fleet.lease_on(&[0, 1]);
    fleet.wait(TTL);
    let mut acquire = Acquire::new(3, fleet.terms(), NonEmpty::new(resource()), fleet.now);
    let requests: Vec<_> = from_fn(|| acquire.next_request()).collect();
    acquire.on_reply(requests[1].0, Err(Fault::TimedOut));
    for node in [0, 2] {
        let (to, request) = &requests[node];
        let grant = fleet.ask(node, request);
        acquire.on_reply(*to, Ok(grant.clone()));
        acquire.on_reply(*to, Ok(grant));
    }
    let (to, publish) = acquire.next_request().unwrap();
    assert!(matches!(publish, Request::Publish { .. }), "{publish:?}");
    let published = fleet.ask(to.node, &publish);
    acquire.on_reply(to, Ok(published));
    assert!(matches!(acquire.outcome(fleet.now), Some(Ok(_))), "{:?}", acquire.outcome(fleet.now));
}

/// Blank nodes as well, and these start on the operator's word.
#[test]
fn strict_leaves_a_lost_majority_to_the_operator() {
    let mut fleet = World::started(3);
    fleet.lease_on(&[0, 1, 2]);
    [0, 1].into_iter().for_each(|node| fleet.forget(node));
    let strict = StartOrder { strict: true, ..start_order(Nonce(1)) };
    let order = StartOrder { assume_no_locks: true, ..strict };
    assert_eq!(World::blank(3).readmit_by(0, false, strict), Err(ReadmitError::Strict));
    assert_eq!(World::blank(3).readmit_by(0, false, order), Ok(()));
    assert_eq!(fleet.readmit_by(0, false, order), Err(ReadmitError::Strict));
    assert_eq!(fleet.readmit_by(0, false, StartOrder { strict: false, ..order }), Ok(()));
    assert!(matches!(fleet.acquire_on(&[0, 1, 2]), Err(Lost::NoQuorum { .. })), "quarantine");
}

#[test]
fn a_missing_node_keeps_a_lost_majority_out() {
    let readmit = Readmit::new(3, 0, false, start_order(Nonce(1)));
    let outcome = Open::new(readmit, &[0, 1, 2]).all_on(&mut World::blank(3), &[0, 1]);
    assert_eq!(outcome, Some(Err(ReadmitError::NotStarted(vec![(2, Fault::TimedOut)]))));
}

#[test]
fn counts_are_not_collected_ahead_of_the_clock() {
    let mut fleet = World::started(3);
    let order = start_order(Nonce(1));
    fleet.run_out(0);
    let era = fleet.era(0);
    // The clock is one second ahead of the era in use, which the next would reach.
    assert_eq!(fleet.clock.as_secs(), era + 1);
    let ahead = ReadmitError::AheadOfClock { era: era + 1, clock: era + 1 };
    assert_eq!(fleet.readmit_by(0, true, order), Err(ahead));
    assert_eq!(fleet.era(0), era);
    fleet.wait(Duration::from_secs(1));
    assert_eq!(fleet.readmit_by(0, true, order), Ok(()));
    assert_eq!(fleet.era(0), era + 1);
}

#[test]
fn time_that_is_up_is_no_lease() {
    let mut fleet = World::started(1);
    let attempt = fleet.terms();
    let mut acquire = Acquire::new(1, attempt, NonEmpty::new(resource()), fleet.now);
    let (to, request) = acquire.next_request().unwrap();
    let reply = fleet.ask(to.node, &request);
    fleet.wait(TTL);
    acquire.on_reply(to, Ok(reply));
    let faults = vec![(0, Fault::GrantedTooLate)];
    assert_eq!(acquire.outcome(fleet.now), Some(Err(Lost::NoQuorum { granted: 1, faults })));
}
