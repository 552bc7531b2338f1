//! Two movers at one time, one of them slow, and nodes that forget.

use std::time::Duration;

use fencing_protocol::{ReadmitError, RelocateError};

use crate::directed::world::{TTL, World};

const OLD: [usize; 3] = [0, 1, 2];
const NEW: [usize; 3] = [0, 1, 3];

/// The slow one marks a node of the new list late: the other one has started it in a larger era, leases were granted
/// there, and the node forgot. Its clock is behind, and says nothing of that. It is the only one that ever forgets.
#[test]
fn a_slow_mover_does_not_start_the_new_list_once_more() {
    let mut started = 0;
    for rounds in 0..9 {
        for heard in [vec![], vec![0], vec![0, 1], vec![1, 3]] {
            let mut world = World::blank(4);
            world.behind[3] = TTL * 50;
            world.start(&OLD);
            let before = world.lease(&OLD, &OLD);
            let mut slow = world.mover(&OLD, &NEW);
            (0..rounds).for_each(|_| slow.round(&mut world));
            slow.heard_by(&mut world, &heard);
            world.wait(TTL);
            let mut fast = world.mover(&OLD, &NEW);
            fast.until_activation(&mut world);
            fast.heard_by(&mut world, &[0, 3]);
            world.wait(TTL * 2);
            let last = (0..3).map(|_| world.lease(&NEW, &[0, 3])).max().unwrap();
            assert!(before.is_some() && (last.is_none() || last > before), "{last:?}");
            // Where the slow one is far ahead, these two are not the ones that were started.
            started += usize::from(last.is_some());
            world.forget(3);
            if slow.all(&mut world) != Some(Ok(())) {
                // What was interrupted is run again.
                world.mover(&OLD, &NEW).all(&mut world);
            }
            world.wait(TTL * 2);
            for node in [1, 3] {
                world.readmit(&NEW, node).all(&mut world);
            }
            world.wait(TTL * 2);
            let next = world.lease(&NEW, &[1, 3]);
            assert!(next > last, "{rounds} rounds and {heard:?}: {next:?} after {last:?}");
        }
    }
    assert!(started > 20, "{started}");
}

/// Two lists without a common node: a lease of the old list is over before the new one grants any.
#[test]
fn a_lease_of_the_old_list_is_alone_until_its_end() {
    let mut world = World::blank(6);
    world.start(&OLD);
    let mut old = world.attempt(&OLD);
    old.heard_by(&mut world, &OLD);
    assert!(old.token(&world).is_some());
    let new = [3, 4, 5];
    assert_eq!(world.mover_of(&OLD, &new, Duration::ZERO).all(&mut world), Some(Ok(())));
    let mut beside = 0;
    loop {
        let mut next = world.attempt(&new);
        next.heard_by(&mut world, &new);
        match (old.token(&world), next.token(&world)) {
            (Some(old), Some(next)) => panic!("{old} and {next} are both valid"),
            (Some(_), None) => beside += 1,
            (None, Some(_)) => break,
            (None, None) => {}
        }
        world.wait(TTL / 20);
    }
    assert!(beside > 10, "{beside}");
}

/// A member of the old list is brought back into it by a late activation while the others leave.
#[test]
fn a_straggler_joins_the_new_list() {
    let mut world = World::blank(4);
    world.start(&OLD);
    world.forget(1);
    let mut late = world.readmit(&OLD, 1);
    late.until_activation(&mut world);
    let mut mover = world.mover(&OLD, &NEW);
    mover.until_activation(&mut world);
    late.all(&mut world);
    assert_eq!(mover.all(&mut world), Some(Ok(())));
    assert!(matches!(world.readmit(&NEW, 1).all(&mut world), Some(Ok(_))));
    world.wait(TTL * 2);
    assert!(world.lease(&NEW, &[1, 3]).is_some());
}

#[test]
fn lists_may_come_again() {
    let lists: [&[usize]; 6] = [&[0, 1, 2], &[0, 1, 3], &[0, 3, 4], &[0, 1, 2, 3, 4], &[1, 2, 4], &[0, 1, 2]];
    let mut world = World::blank(5);
    world.start(lists[0]);
    let mut last = world.lease(lists[0], lists[0]);
    for pair in lists.windows(2) {
        let moved = world.mover(pair[0], pair[1]).all(&mut world);
        assert_eq!(moved, Some(Ok(())), "{pair:?}");
        world.wait(TTL * 2);
        assert_eq!(world.lease(pair[0], pair[0]), None);
        let next = world.lease(pair[1], pair[1]);
        assert!(next > last, "{pair:?}: {next:?} after {last:?}");
        last = next;
    }
}

/// A list that is in use may be another fleet, or that of another move. One node may even have left for it, in a move
/// that was dropped, before it was started: the nodes that were not heard go on in the old list.
#[test]
fn a_list_in_use_is_no_proof_that_the_old_one_was_left() {
    let other = [4, 5, 6];
    for (leaves, heard) in [(false, vec![]), (false, vec![0]), (true, vec![]), (true, vec![0]), (true, vec![0, 1])] {
        let mut world = World::blank(7);
        world.start(&OLD);
        if leaves {
            let mut dropped = world.mover(&OLD, &other);
            dropped.round(&mut world);
            dropped.heard_by(&mut world, &[0]);
        }
        world.start(&other);
        let left = usize::from(leaves && heard.contains(&0));
        let answering = [&heard[..], &other].concat();
        let moved = world.mover(&OLD, &other).all_on(&mut world, &answering);
        assert_eq!(moved, Some(Err(RelocateError::NotLeft(left))), "{leaves} {heard:?}");
        assert!(world.lease(&OLD, &[1, 2]).is_some(), "{leaves} {heard:?}");
        if !leaves {
            assert_eq!(world.mover(&OLD, &NEW).all(&mut world), Some(Ok(())));
            let moved = world.mover(&OLD, &other).all(&mut world);
            assert!(matches!(moved, Some(Err(RelocateError::OldElsewhere(..)))), "{moved:?}");
            world.wait(TTL * 2);
            assert!(world.lease(&NEW, &NEW).is_some());
        }
    }
}

/// A node that missed the move leaves when the move is run again, also where others of its list have joined the new one.
#[test]
fn a_move_that_is_done_takes_along_who_was_down() {
    for (new, heard, again) in
        [([3, 4, 5], vec![0, 1, 3, 4, 5], vec![0, 1, 2, 3, 4, 5]), ([1, 2, 3], vec![1, 2, 3], vec![0, 1, 2, 3])]
    {
        let mut world = World::blank(6);
        world.start(&OLD);
        assert_eq!(world.mover(&OLD, &new).all_on(&mut world, &heard), Some(Ok(())));
        assert_eq!(world.mover(&OLD, &new).all_on(&mut world, &again), Some(Ok(())));
        let missed = (0..3).find(|server| !heard.contains(server)).unwrap();
        let back = world.readmit(&OLD, missed).all(&mut world);
        assert!(matches!(back, Some(Err(ReadmitError::Elsewhere(..)))), "{new:?}: {back:?}");
    }
}

#[test]
fn a_node_that_has_left_is_claimed_by_nobody_else_before_the_move_is_done() {
    let mut world = World::blank(6);
    world.start(&OLD);
    let mut interrupted = world.mover(&OLD, &NEW);
    interrupted.until_activation(&mut world);
    world.start(&[4, 5]);
    let other = world.mover(&[4, 5], &[2, 4, 5]).all(&mut world);
    assert!(matches!(other, Some(Err(_))));
    assert_eq!(interrupted.all(&mut world), Some(Ok(())));
}

/// A mover sleeps; the move is done without it, and the fleet moves back. When it wakes up, no round of its own counts
/// for what has come and gone since: neither for order, nor does it take away the fleet.
#[test]
fn a_mover_that_was_asleep_undoes_nothing() {
    let news: [&[usize]; 4] = [&[3, 4, 5], &[0, 3, 4], &[0, 1, 3], &[0, 1, 2, 3, 4]];
    for new in news {
        for rounds in 0..12 {
            for heard in 0..new.len() {
                slept(new, rounds, heard);
            }
        }
    }
}

fn slept(new: &[usize], rounds: usize, heard: usize) {
    let mut world = World::blank(6);
    world.start(&OLD);
    let mut sleeper = world.mover(&OLD, new);
    let mut helper = world.mover(&OLD, new);
    // The other one comes to the same point a second earlier, with a smaller era.
    for mover in [&mut helper, &mut sleeper] {
        (0..rounds.min(7)).for_each(|_| mover.round(&mut world));
        world.wait(TTL / 10);
    }
    (0..rounds.saturating_sub(7)).for_each(|_| sleeper.round(&mut world));
    sleeper.heard_by(&mut world, &new[..heard]);
    helper.all(&mut world);
    world.mover(&OLD, new).all(&mut world);
    world.wait(TTL * 2);
    let first = world.lease(new, new);
    assert_eq!(world.mover(new, &OLD).all(&mut world), Some(Ok(())), "{new:?} {rounds} {heard}");
    world.wait(TTL * 360);
    let second = world.lease(&OLD, &OLD);
    assert!(first.is_some() && second > first, "{new:?} {rounds} {heard}: {second:?} {first:?}");
    // One that has not begun to seal does now what it was told.
    let asleep_before_it_left = rounds < 2;
    sleeper.all(&mut world);
    world.wait(TTL * 2);
    let (old, other) = (world.lease(&OLD, &OLD), world.lease(new, new));
    for token in [old, other].into_iter().flatten() {
        assert!(Some(token) > second, "{new:?} {rounds} {heard}: {token} after {second:?}");
    }
    assert!(old.is_none() || other.is_none(), "{new:?} {rounds} {heard}: both lists grant");
    assert!(old.is_some() || asleep_before_it_left, "{new:?} {rounds} {heard}: the fleet is gone");
}
