//! What a start, a re-admission and a move make of nodes that forgot, or left and came back, between two rounds.

use std::time::Duration;

use fencing_protocol::{
    Fault, Fleet, NodeState, Nonce, Prepared, Readmit, ReadmitError, Relocate, RelocateError, Relocation, Reply,
    Request, Sealing, Side,
};

use crate::directed::world::{TTL, drive, start_order};

fn seen(node: usize, (admitted, era): (bool, u64), reserved: u64) -> Prepared {
    let state = NodeState { nonce: Nonce(node as u128), era, reserved, longest: TTL };
    let (clock, uptime) = (Duration::from_secs(9), Duration::MAX);
    let (blank, crowded, other) = (false, false, None);
    Prepared { admitted, blank, crowded, other, state, clock, uptime }
}

/// A node answers that it promises the era, and shows the promise after that.
const PROMISES: (bool, bool) = (true, true);

/// Starts three nodes that show themselves so in each of three rounds: admitted or not, and in which era. `promises`
/// says of each whether it answers that it promises the era, and whether it shows the promise after that.
fn start(rounds: [[(bool, u64); 3]; 3], promises: [(bool, bool); 3]) -> Option<Result<(), ReadmitError>> {
    let (mut asked, mut reserved) = (0, 0);
    let mut readmit = Readmit::new(3, 0, false, start_order(Nonce(1)));
    let outcome = drive(&mut readmit, |to, request| match request {
        Request::Prepare { .. } => {
            // The first one asks the target, before the start.
            let round = usize::saturating_sub(asked, 1) / 3;
            asked += 1;
            let shown = if promises[to.node].1 { reserved } else { 0 };
            Ok(Reply::Prepared(seen(to.node, rounds[round][to.node], shown)))
        }
        Request::Read => Ok(Reply::NotAdmitted),
        Request::Reserve { era, .. } => {
            let remember = rounds[1].iter().filter(|(admitted, _)| *admitted).count();
            assert!(remember < 2, "it begins although a majority remembers");
            reserved = era;
            let promise = Reply::Reserved { nonce: Nonce(to.node as u128) };
            if promises[to.node].0 { Ok(promise) } else { Err(Fault::TimedOut) }
        }
        _ => Ok(Reply::Activated),
    });
    outcome.map(|outcome| outcome.map(drop))
}

/// Nonces stay: the nodes forgot nothing in between. But a node that left and came back did, to the fleet.
#[test]
fn a_start_is_overtaken_by_a_node_that_came_back_or_left_meanwhile() {
    let start = |rounds| start(rounds, [PROMISES; 3]);
    let (away, here) = ((false, 5), (true, 5));
    assert_eq!(start([[away; 3]; 3]), Some(Ok(())));
    let again = [away, away, (false, 6)];
    assert_eq!(start([[away; 3], [away; 3], again]), Some(Err(ReadmitError::Overtaken)));
    assert_eq!(start([[away; 3], again, again]), Some(Err(ReadmitError::Overtaken)));
    let remember = [here, here, away];
    assert_eq!(start([[away; 3], remember, remember]), Some(Err(ReadmitError::Overtaken)));
    // Node 0 remembered when the second round began, and node 1 when the third did.
    let rounds = [[away; 3], [here, away, away], [away, here, away]];
    assert_eq!(start(rounds), Some(Err(ReadmitError::Overtaken)));
}

/// An answer that was lost may be of a promise that came when another node had forgotten its own.
#[test]
fn a_start_needs_a_majority_that_has_promised_and_shows_it() {
    let start = |[a, b]: [_; 2]| start([[(false, 5); 3]; 3], [PROMISES, a, b]).unwrap();
    for case in [(false, true), (true, false)] {
        assert_eq!(start([PROMISES, case]), Ok(()));
        assert_eq!(start([case, case]), Err(ReadmitError::Overtaken), "{case:?}");
    }
}

/// The others are read, promise, and are read once more, in this memory and with this promise.
#[test]
fn a_node_comes_back_in_an_era_that_is_promised_in_the_memory_that_promised_it() {
    let run = |forgets: u128, reserved| {
        let mut readmit = Readmit::new(3, 0, false, start_order(Nonce(1)));
        let mut promised = 0;
        let outcome = drive(&mut readmit, |to, request| {
            let mut state = seen(to.node, (true, 5), 0).state;
            Ok(match request {
                Request::Prepare { .. } => Reply::Prepared(seen(to.node, (false, 5), 0)),
                Request::Reserve { era, .. } => {
                    promised = era;
                    Reply::Reserved { nonce: state.nonce }
                }
                Request::Read if promised > 0 => {
                    (state.nonce.0, state.reserved) = (state.nonce.0 + forgets, reserved);
                    Reply::State(state)
                }
                Request::Read => Reply::State(state),
                _ => Reply::Activated,
            })
        });
        outcome.unwrap().map(drop)
    };
    assert_eq!(run(0, 6), Ok(()));
    assert_eq!(run(100, 6), Err(ReadmitError::Overtaken));
    assert_eq!(run(0, 5), Err(ReadmitError::Overtaken));
}

#[test]
fn a_move_is_overtaken_by_nodes_that_came_back_and_left_again_in_the_same_memory() {
    let list = |name: &str| Fleet::new((0..3).map(|node| format!("{name}{node}"))).unwrap();
    let run = |last_era| {
        let (old, new, nonce) = (list("a"), list("b"), Nonce(1));
        let mut moving = Relocate::new(Relocation { old, new, nonce, longest: TTL, lost: false });
        let (mut promises, mut reserved) = (0, 0);
        drive(&mut moving, |to, request| {
            let node = to.node;
            let reply = match request {
                Request::Prepare { .. } => Reply::Prepared(seen(node, (false, 5), reserved)),
                Request::Seal { step, .. } => {
                    if let Sealing::Promise(era @ 1..) = step {
                        (promises, reserved) = (promises + 1, era);
                    }
                    let era = if promises > 3 { last_era } else { 5 };
                    Reply::State(seen(node, (false, era), reserved).state)
                }
                Request::Reserve { era, .. } => {
                    reserved = era;
                    Reply::Reserved { nonce: Nonce(node as u128) }
                }
                _ => Reply::Activated,
            };
            assert!(to.side == Side::New || matches!(reply, Reply::State(_)), "{reply:?}");
            Ok(reply)
        })
    };
    assert_eq!(run(5), Some(Ok(())));
    assert_eq!(run(6), Some(Err(RelocateError::NotStarted(ReadmitError::Overtaken))));
}
