//! Promises that were never held at one moment. With three nodes it can't be seen: there a
//! majority of the others is all of them.

use fencing_protocol::{Reply, Token, majority};

use crate::directed::world::{TTL, World};

/// One node forgets. Its re-admission is promised an era by nodes that forget the promise, one
/// after the other, and are brought back by others who never heard of it. Never more than a
/// minority has forgotten.
fn schedule(nodes: usize, abandoned: usize) -> (Option<Token>, Option<Token>) {
    let mut world = World::blank(nodes);
    let fleet: Vec<usize> = (0..nodes).collect();
    let last = majority(nodes);
    let (forgetful, readers) = (&fleet[1..last], &fleet[1..=last]);
    let rest = &fleet[last + 1..];
    world.start(&fleet);
    world.forget(0);
    // Clients that began to bring it back were heard by one node only, and gave up.
    for _ in 0..abandoned {
        let mut order = world.readmit(&fleet, 0);
        order.at(&mut world, 0);
        order.heard_by(&mut world, readers);
        order.at(&mut world, 1);
    }
    let mut order = world.readmit(&fleet, 0);
    order.at(&mut world, 0);
    order.heard_by(&mut world, readers);
    for node in forgetful {
        let reply = order.at(&mut world, *node);
        assert!(matches!(reply, Some(Reply::Reserved { .. })), "{reply:?}");
        world.forget(*node);
        let others: Vec<usize> = (1..nodes).filter(|other| other != node).collect();
        world.bring_back(&fleet, *node, &others[..majority(nodes)]);
    }
    // The last promise arrives; what the order does from there on arrives, too.
    assert!(matches!(order.at(&mut world, last), Some(Reply::Reserved { .. })));
    if !matches!(order.all(&mut world), Some(Ok(_))) {
        world.bring_back(&fleet, 0, readers);
    }
    world.wait(TTL * 2);
    // The first attempt is granted by that node, the last one and the rest; it publishes late.
    let mut first = world.attempt(&fleet);
    let granted = [&[0, last], rest].concat();
    first.heard_by(&mut world, &granted);
    // The node forgets again and is brought back by clients that have not heard of its era.
    world.forget(0);
    world.bring_back(&fleet, 0, &[forgetful, &rest[..1]].concat());
    first.heard_by(&mut world, &granted);
    let first = first.token(&world);
    world.wait(TTL * 3);
    (first, world.lease(&fleet, &[&[0], forgetful].concat()))
}

#[test]
fn a_promise_that_is_not_held_any_more_does_not_count() {
    for nodes in [5, 7] {
        for abandoned in 0..6 {
            let (first, second) = schedule(nodes, abandoned);
            assert!(second.is_some(), "{nodes} nodes: the second attempt is won");
            assert!(second > first, "{nodes} nodes, {abandoned}: {second:?} after {first:?}");
        }
    }
}
