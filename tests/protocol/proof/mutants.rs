//! Every rule is needed: with any one left out, a step breaks the invariant.

use crate::proof::fact::{Entry, entries, fact};
use crate::proof::obligation::{Obligation, kept};
use crate::proof::steps::{self, Step, steps};

/// A step without one of its rules, or with a weaker one in its place.
///
/// Each line of the tables below is one: the step, the rule, the conjunct that the step breaks then, what
/// is left out. A weaker rule follows on a line of its own, its variable first if it has one.
pub struct Mutant {
    /// What is left out, in words.
    pub what: &'static str,
    step: &'static str,
    rule: &'static str,
    instead: Option<(&'static str, &'static str)>,
    breaks: &'static str,
}

const ATTEMPT: &str = "
begin | is new | later-granted-more | an attempt begins once
acquire | began | grant-is-sound | only who began asks
acquire | free | one-lock | a node grants what is free
acquire | admitted | forgotten-granted-none | a node that forgot does not grant
    instead: (or (admitted N (fleet A)) (forgotten N))
acquire | admitted | sealers-grant-no-f | a node of g does not grant under f
    instead: (or (admitted N f) (admitted N g))
acquire | admitted | sealers-grant-no-f | a sealed node does not grant
    instead: (or (admitted N (fleet A)) (sealed N))
answer again | began | grant-is-sound | only who began asks again
answer again | admitted | sealers-grant-no-f | a sealed node does not answer
    instead: (or (admitted N (fleet A)) (sealed N))
answer again | owner | grants-differ | another's lock is not answered
answer again | not won | grants-differ | no grant counts after the win
choose | once | raise-is-past | a token is chosen once
choose | majority | choice-is-sound | a majority has granted
# Such as an era that nobody promised.
choose | was granted | choice-is-sound | the token was granted
    instead: n Node: (and (= E 1) (not (promised 1)) (= (qe n) 0) (= (qc n) 0))
choose | largest | choice-above-counted | the token is the largest grant
publish | chose | raise-is-sound | only a chosen token is published
publish | owner | raise-and-grant-differ | publish needs the owner
publish | count | grant-upto-count | publish not below the count
publish | admitted | era-is-promised | publish only where admitted
win | chose | win-is-sound | only a chosen token wins
win | once | later-granted-more | an attempt wins once
win | majority | win-is-sound | a majority is published
win | published | winners-published | a late grant above the token is out
    instead: n Node: (=> (in n Q) (or (published A n (qm n))
        (exists ((e Era) (c Count)) (and (grant A n (qm n) e c) (below (token-era A) (token-count A) e c)))))
heal | won | holder-above-grants | only a lease is renewed
heal | free | one-lock | renew heals only what is free
";

const SHARING: &str = "
acquire | free | one-lock | one that is alone waits for parts
    instead: a Attempt: (=> (lock N a) (shared a))
acquire | free | one-lock | one that shares waits for who is alone
    instead: a Attempt: (=> (lock N a) (shared A))
join | began | grant-is-sound | only who began joins
join | admitted | forgotten-granted-none | nobody joins at a node that forgot
    instead: (or (admitted N (fleet A)) (forgotten N))
join | admitted | sealers-grant-no-f | nor at a sealed one
    instead: (or (admitted N (fleet A)) (sealed N))
join | shares | one-lock | nobody joins to be alone
join | others | sharer-above-grants | the first part is counted
join | others | one-lock | nobody joins who is alone
    instead: (lock N B)
join | counted | grants-differ | the first in an era is counted
publish | owner | raise-and-grant-differ | publish needs a part
    instead: (or (lock N A) (shared A))
publish | owner | raise-and-grant-differ | and a part of its own
    instead: (or (lock N A) (and (shared A) (exists ((b Attempt)) (and (lock N b) (shared b)))))
heal | alone | sharer-above-grants | who shares raises the count
heal part | won | sharer-above-grants | only a lease sets its part again
heal part | shares | one-lock | not one that is alone
heal part | admitted | era-is-promised | only where admitted
heal part | free | one-lock | not beside one that is alone
heal part | count | grant-upto-count | a part lowers no count
heal part | raised | sharer-above-grants | a part raises the count to its token
    instead: (and (= E (era N)) (= C (count N)))
";

/// The rules of nodes, of a re-admission, of a collection.
const READMISSION: &str = "
forget | memory is new | reader-tells | a stretch of memory is new
forget | one lock | one-lock | one lock at a time
other resource | admitted | era-is-promised | only an admitted node raises its era
other resource | promised | era-is-promised | only to a promised era
other resource | larger | grant-upto-count | only to a larger era
use up | larger | grant-upto-count | a count is used up, and not taken back
read | prepared | read-after-prepare | read after the target's prepare
prepare | once | reader-tells | a client prepares once
read | admitted | reader-tells | a node that forgot is not read
    instead: (or (admitted N (under X)) (forgotten N))
read | admitted | sealers-not-read | a sealed node is not read under f
    instead: (or (admitted N (under X)) (sealed N))
aim | majority | aim-above-past | a majority is read
aim | read | aim-above-past | the era is from what was read
aim | above | aim-above-past | the era is larger
aim | above | aim-above-past | the era is not the one that was read
    instead: n Node: (=> (in n Q) (>= E (qv n)))
confirm | aims | fleets-in-order | the era that was aimed at is promised
confirm | majority | fleets-in-order | a majority promises
# Each of them promised at some time, and may have forgotten it since and be back.
confirm | held | promise-is-kept | they promise at one moment
    instead: n Node: (=> (in n Q) (admitted n (under X)))
confirm | held | floor-above-f | a sealed node promises nothing under f
    instead: n Node: (=> (in n Q) (and (>= (written n) E) (or (admitted n (under X)) (sealed n))))
confirm | first | reader-tells | a promise is of one majority
activate | aims | back-in-larger-era | the era that was aimed at is activated
activate | promised | era-is-promised | it is promised
activate | nonce | back-in-larger-era | in the memory that was prepared
activate | fleet | sealers-left-f | a node of g does not come back under f
activate | seal | sealers-left-f | nor does a sealed one
activate | grows | grant-upto-count | an era only grows
";

const MOVE: &str = "
seal | admitted | answer-tells | only a node that remembers is sealed
seal again | has left | answer-seals | and says so again
moment | majority | sealers-of-f | a majority of f is sealed
moment | answered | sealers-left-f | each of it answered
moment | held | sealers-left-f | they are sealed at one moment
moment | above | floor-above-f | the floor is above what they told
survey | seal | start-of-f-not-late | f is not started on a sealed node
survey | fleet | start-of-f-not-late | nor on a node of g
survey | floor | pick-above-f | g starts above the floor
survey | above | pick-above-past | and a fleet above what is written on it
survey | above | pick-above-past | not with an era that is reserved
    instead: n Node: (=> (member n (under X)) (or (> E (written n)) (= E (reserved n))))
survey | majority | pick-above-past | the majority that remembers is of it
survey | minority forgot | pick-above-past | a majority remembers
promise | starting | fleets-in-order | only a starter's era is promised
promise | nonce | fleets-in-order | in the memory that was prepared
promise | seal | fleets-in-order | a sealed node does not promise f
promise | fleet | fleets-in-order | nor does a node of g
promise | majority | fleets-in-order | a majority of it promises
promise | held | promise-is-kept | and holds the promise
promise | first | reader-tells | it is of one majority
start | starting | back-in-larger-era | only who prepared all nodes starts them
start | nonce | back-in-larger-era | in the memory that was prepared
start | promised | era-is-promised | only in a promised era
start | fleet | sealers-left-f | f is not started on a node of g
start | seal | sealers-left-f | nor on a sealed one
start | grows | grant-upto-count | an era only grows
";

/// What the code checks and order does not need: each step is proved without it.
const SPARE: &str = "
# A count is compared with its era, so no older memory's token passes.
publish | nonce |  | publish needs the nonce
publish | granted less |  | publish follows a grant
publish | admitted |  | a sealed node does not publish
    instead: (or (admitted N (fleet A)) (sealed N))
heal | admitted |  | renew only where admitted
survey | once |  | a client starts once
";

fn step(mutant: &Mutant) -> Step {
    let instead = mutant.instead.map(|(vars, body)| fact(mutant.rule, vars, body));
    steps::step(mutant.step).without(mutant.rule, instead)
}

fn table(text: &'static str) -> Vec<Mutant> {
    let mutant = |(head, items): Entry| {
        let [step, rule, breaks, what] = head.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("not four cells: {head}")
        };
        let weaker = items.first().and_then(|item| item.strip_prefix("instead: "));
        let instead = weaker.map(|weaker| weaker.split_once(": ").unwrap_or(("", weaker)));
        Mutant { what, step, rule, instead, breaks }
    };
    entries(text).into_iter().map(mutant).collect()
}

pub fn mutants() -> Vec<Mutant> {
    [ATTEMPT, SHARING, READMISSION, MOVE].into_iter().flat_map(table).collect()
}

pub fn broken(mutant: &Mutant) -> Obligation {
    let mut kept = kept(&step(mutant)).into_iter();
    kept.find(|obligation| obligation.goal == mutant.breaks).expect(mutant.what)
}

/// What holds though the rules that order does not need are left out.
pub fn spared() -> Vec<Obligation> {
    table(SPARE).iter().flat_map(|mutant| kept(&step(mutant))).collect()
}

/// The rules of the steps of which nothing is said here.
pub fn untold() -> Vec<String> {
    let known: Vec<Mutant> = mutants().into_iter().chain(table(SPARE)).collect();
    let told = |step: &str, rule: &str| known.iter().any(|m| m.step == step && m.rule == rule);
    let rules = steps().iter().flat_map(|step| step.rules.iter().map(|rule| (step.name, rule.name)));
    let untold = rules.filter(|(step, rule)| !told(step, rule));
    untold.map(|(step, rule)| format!("{step}: {rule}")).collect()
}
