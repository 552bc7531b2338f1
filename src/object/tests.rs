//! Every interleaving of a few writers on one object, with requests that are lost, late or repeated.
//!
//! The writers decide by [`Write`], as the fence does; the store and the network are modelled. Each mutant breaks one rule of
//! the fence, and the search finds what goes wrong.

use std::collections::{BTreeSet, HashSet};

use fencing_protocol::{Resource, Token};

use super::write::{Halt, Next, ObjectState, Write};

/// The rule that is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// The token is in the metadata, and the version is a hash of the contents, as on S3.
    Metadata,
    /// Each head has the same nonce.
    NoNonce,
    /// A deletion removes the object, and its token with it.
    RealDelete,
    /// A refused write does not look whether it was refused by its own repetition.
    NoReadBack,
    /// A sweep deletes all contents that no head points at, whatever their token.
    SweepAll,
}

/// What a writer wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Wish {
    Put,
    /// Contents elsewhere, at which the head points.
    Stream,
    Claim,
    Delete,
}

/// Where the contents of a version are. A body is named by the nonce of the write that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ContentsAt {
    Here,
    Gone,
    At(u128),
}

/// The version of an object: a hash of what is stored.
type Version = (u64, u128, ContentsAt);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Stored {
    token: Token,
    nonce: u128,
    /// The write that made it; its nonce, unless all have the same one.
    id: u128,
    place: ContentsAt,
}

/// A conditional write under way.
#[derive(Clone, PartialEq, Eq, Hash)]
struct StoreRequest {
    over: Option<Version>,
    object: Stored,
    removes: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Phase {
    /// Between two changes.
    Idle,
    /// It is about to read.
    Reading(Write),
    Sending {
        write: Write,
        request: StoreRequest,
        repeated: bool,
    },
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Writer {
    place: usize,
    token: Token,
    changes: Vec<Wish>,
    /// How many have begun.
    begun: usize,
    phase: Phase,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    object: Option<Stored>,
    bodies: BTreeSet<(Token, u128)>,
    writers: Vec<Writer>,
    /// Requests of writers that are gone.
    late: Vec<StoreRequest>,
    /// What a sweep has read, and is about to use.
    sweep: Option<Option<(Token, ContentsAt)>>,
    sweeps: u32,
    /// How many answers may still be lost. Without an end to it, two writers under one token write in turn for ever.
    losses: u32,
    /// What the properties speak of.
    highest: Option<Token>,
    applied: BTreeSet<u128>,
}

struct Search {
    mutant: Mutant,
    worlds: usize,
    breaches: BTreeSet<&'static str>,
}

const STALE: &str = "a stale write was applied";
const NOT_APPLIED: &str = "a write that was never applied counts as done";
const NOT_STALE: &str = "a write was refused that was not stale";
const TWICE: &str = "a write was applied on top of itself";
const SWEPT: &str = "a head points at contents that a sweep has deleted";

impl Writer {
    /// The number of the change that it has begun.
    fn id(&self) -> u128 {
        (self.place * 8 + self.begun) as u128
    }
}

impl Search {
    /// Searches from the start.
    fn run(&mut self, plans: &[(u64, &[Wish])], sweeps: u32) {
        let writers = plans.iter().enumerate().map(|(place, &(token, changes))| Writer {
            place,
            token: Token::try_from(token).expect("it is one"),
            changes: changes.to_vec(),
            begun: 0,
            phase: Phase::Idle,
        });
        let first = World {
            object: None,
            bodies: BTreeSet::new(),
            writers: writers.collect(),
            late: Vec::new(),
            sweep: None,
            sweeps,
            losses: 1,
            highest: None,
            applied: BTreeSet::new(),
        };
        let (mut seen, mut open) = (HashSet::new(), vec![first]);
        while let Some(world) = open.pop() {
            if seen.insert(world.clone()) {
                self.steps(&world, &mut open);
            }
        }
        self.worlds += seen.len();
    }

    fn steps(&mut self, world: &World, open: &mut Vec<World>) {
        for place in 0..world.writers.len() {
            self.step(world, place, open);
        }
        for place in 0..world.late.len() {
            let mut next = world.clone();
            let request = next.late.swap_remove(place);
            self.arrive(&mut next, &request);
            open.push(next);
        }
        self.sweep(world, open);
    }

    fn step(&mut self, world: &World, place: usize, open: &mut Vec<World>) {
        let writer = &world.writers[place];
        match writer.phase.clone() {
            Phase::Idle => {
                let Some(&change) = writer.changes.get(writer.begun) else { return };
                let mut next = world.clone();
                let writer = &mut next.writers[place];
                writer.begun += 1;
                let nonce = if self.mutant == Mutant::NoNonce { 0 } else { writer.id() };
                if change == Wish::Stream {
                    next.bodies.insert((writer.token, writer.id()));
                }
                let resource = Resource::new("files/a").expect("it is one");
                let write = Write::new(resource, writer.token, nonce, change == Wish::Claim);
                writer.phase = Phase::Reading(write);
                open.push(next);
            }
            Phase::Reading(write) => {
                let mut next = world.clone();
                next.writers[place].phase = self.read(world, writer, write);
                open.push(next);
            }
            Phase::Sending { write, request, repeated } => {
                // It arrives, and so does the answer.
                let mut answered = world.clone();
                let phase = match self.arrive(&mut answered, &request) {
                    true => Phase::Idle,
                    false => Phase::Reading(write.clone()),
                };
                answered.writers[place].phase = phase;
                open.push(answered);
                // It arrives, the answer is lost, and the client of the store repeats the request.
                if !repeated && world.losses > 0 {
                    let mut lost = world.clone();
                    lost.losses -= 1;
                    self.arrive(&mut lost, &request);
                    lost.writers[place].phase = Phase::Sending { write, request: request.clone(), repeated: true };
                    open.push(lost);
                }
                // The writer is gone, and the request arrives later, or never.
                let mut gone = world.clone();
                gone.writers[place].begun = gone.writers[place].changes.len();
                gone.writers[place].phase = Phase::Idle;
                gone.late.push(request);
                open.push(gone);
            }
        }
    }

    /// What a writer does with what it reads.
    fn read(&mut self, world: &World, writer: &Writer, mut write: Write) -> Phase {
        let state = world.object.as_ref().map(|object| ObjectState {
            version: self.version(object),
            token: object.token,
            nonce: if self.mutant == Mutant::NoReadBack { u128::MAX } else { object.nonce },
        });
        match write.judge(state.as_ref()) {
            Ok(Next::Done) => {
                let claimed = write.claims && world.highest >= Some(write.token);
                if !claimed && !world.applied.contains(&writer.id()) {
                    self.breaches.insert(NOT_APPLIED);
                }
                Phase::Idle
            }
            Ok(Next::Send) => {
                let change = writer.changes[writer.begun - 1];
                let place = match change {
                    Wish::Put => ContentsAt::Here,
                    Wish::Stream => ContentsAt::At(writer.id()),
                    Wish::Delete => ContentsAt::Gone,
                    Wish::Claim => world.object.as_ref().map_or(ContentsAt::Gone, |object| object.place),
                };
                let object = Stored { token: write.token, nonce: write.nonce, id: writer.id(), place };
                let removes = change == Wish::Delete && self.mutant == Mutant::RealDelete;
                let request = StoreRequest { over: state.map(|state| state.version), object, removes };
                Phase::Sending { write, request, repeated: false }
            }
            Err(Halt::Stale(stale)) => {
                if world.highest < Some(stale.highest) {
                    self.breaches.insert(NOT_STALE);
                }
                Phase::Idle
            }
            Err(Halt::Contended) => Phase::Idle,
        }
    }

    fn version(&self, object: &Stored) -> Version {
        match self.mutant {
            Mutant::Metadata => (0, 0, object.place),
            _ => (object.token.get(), object.nonce, object.place),
        }
    }

    /// The store applies a request or refuses it.
    fn arrive(&mut self, world: &mut World, request: &StoreRequest) -> bool {
        if world.object.as_ref().map(|object| self.version(object)) != request.over {
            return false;
        }
        let object = &request.object;
        if Some(object.token) < world.highest {
            self.breaches.insert(STALE);
        }
        if world.object.as_ref().is_some_and(|last| last.id == object.id) {
            self.breaches.insert(TWICE);
        }
        if let ContentsAt::At(body) = object.place
            && !world.bodies.iter().any(|&(_, nonce)| nonce == body)
        {
            self.breaches.insert(SWEPT);
        }
        world.highest = world.highest.max(Some(object.token));
        world.applied.insert(object.id);
        world.object = (!request.removes).then(|| object.clone());
        true
    }

    /// A sweep reads the head, and later deletes contents by it.
    fn sweep(&mut self, world: &World, open: &mut Vec<World>) {
        let mut next = world.clone();
        match &world.sweep {
            None if world.sweeps == 0 => return,
            None => {
                next.sweeps -= 1;
                next.sweep = Some(world.object.as_ref().map(|object| (object.token, object.place)));
            }
            Some(read) => {
                next.sweep = None;
                if let Some((newest, place)) = *read {
                    let all = self.mutant == Mutant::SweepAll;
                    next.bodies.retain(|&(token, nonce)| (!all && token >= newest) || place == ContentsAt::At(nonce));
                }
                if let Some(Stored { place: ContentsAt::At(body), .. }) = world.object
                    && !next.bodies.iter().any(|&(_, nonce)| nonce == body)
                {
                    self.breaches.insert(SWEPT);
                }
            }
        }
        open.push(next);
    }
}

/// All puts have the same contents: this is the worst case for a version that is a hash of them.
const ALL: [Wish; 4] = [Wish::Put, Wish::Stream, Wish::Claim, Wish::Delete];

/// Two holders with two changes each and a sweep beside them; and three writers with one change each, two of which may
/// have the same token. Returns how many worlds there are, and what was broken in them.
fn search(mutant: Mutant, until: Option<&str>) -> (usize, BTreeSet<&'static str>) {
    let mut search = Search { mutant, worlds: 0, breaches: BTreeSet::new() };
    for first in ALL {
        for second in ALL {
            for third in ALL {
                for older in [33, 34] {
                    search.run(&[(33, &[first]), (older, &[second]), (35, &[third])], 0);
                }
                for fourth in ALL {
                    search.run(&[(33, &[first, second]), (34, &[third, fourth])], 1);
                }
                if until.is_some_and(|breach| search.breaches.contains(breach)) {
                    return (search.worlds, search.breaches);
                }
            }
        }
    }
    (search.worlds, search.breaches)
}

#[test]
fn no_interleaving_applies_a_stale_write() {
    let (worlds, breaches) = search(Mutant::None, None);
    assert_eq!(breaches, BTreeSet::new());
    println!("{worlds} worlds");
    assert!(worlds > 100_000, "{worlds}");
}

/// The search finds what a fence without one of its rules does wrong.
fn dies(mutant: Mutant, of: &str) {
    let breaches = search(mutant, Some(of)).1;
    assert!(breaches.contains(of), "{breaches:?}");
}

#[test]
fn a_token_in_the_metadata_is_no_fence() {
    dies(Mutant::Metadata, STALE);
}

#[test]
fn without_a_nonce_a_write_takes_another_for_its_own() {
    dies(Mutant::NoNonce, NOT_APPLIED);
}

#[test]
fn a_deletion_that_removes_the_token_lets_a_stale_write_in() {
    dies(Mutant::RealDelete, STALE);
}

#[test]
fn without_reading_back_a_write_is_applied_twice() {
    dies(Mutant::NoReadBack, TWICE);
}

#[test]
fn a_sweep_may_not_delete_what_is_about_to_be_pointed_at() {
    dies(Mutant::SweepAll, SWEPT);
}
