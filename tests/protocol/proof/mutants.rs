//! Every rule is needed: with any one left out, a step breaks the invariant.

use crate::proof::fact::fact;
use crate::proof::obligation::{Obligation, kept};
use crate::proof::steps::{Step, steps};

/// A step without one of its rules, or with a weaker one in its place.
pub struct Mutant {
    /// What is left out, in words.
    pub what: &'static str,
    step: &'static str,
    rule: &'static str,
    instead: Option<(&'static str, &'static str)>,
    /// The conjunct that the step breaks then.
    breaks: &'static str,
}

const fn without(
    what: &'static str,
    step: &'static str,
    rule: &'static str,
    breaks: &'static str,
) -> Mutant {
    Mutant { what, step, rule, instead: None, breaks }
}

const fn weaker(mutant: Mutant, vars: &'static str, body: &'static str) -> Mutant {
    Mutant { instead: Some((vars, body)), ..mutant }
}

/// An attempt's rules.
const ATTEMPT: &[Mutant] = &[
    without("an attempt begins once", "begin", "is new", "later-granted-more"),
    without("only who began asks", "acquire", "began", "grant-is-sound"),
    without("a node grants what is free", "acquire", "free", "one-lock"),
    weaker(
        without(
            "a node that forgot does not grant",
            "acquire",
            "admitted",
            "forgotten-granted-none",
        ),
        "",
        "(or (admitted N (fleet A)) (forgotten N))",
    ),
    weaker(
        without("a node of g does not grant under f", "acquire", "admitted", "sealers-grant-no-f"),
        "",
        "(or (admitted N f) (admitted N g))",
    ),
    weaker(
        without("a sealed node does not grant", "acquire", "admitted", "sealers-grant-no-f"),
        "",
        "(or (admitted N (fleet A)) (sealed N))",
    ),
    without("only who began asks again", "answer again", "began", "grant-is-sound"),
    weaker(
        without("a sealed node does not answer", "answer again", "admitted", "sealers-grant-no-f"),
        "",
        "(or (admitted N (fleet A)) (sealed N))",
    ),
    without("another's lock is not answered", "answer again", "owner", "grants-differ"),
    without("no grant counts after the win", "answer again", "not won", "grants-differ"),
    without("a token is chosen once", "choose", "once", "raise-is-past"),
    without("a majority has granted", "choose", "majority", "choice-is-sound"),
    weaker(
        // Such as an era that nobody promised.
        without("the token was granted", "choose", "was granted", "choice-is-sound"),
        "n Node",
        "(and (= E 1) (not (promised 1)) (= (qe n) 0) (= (qc n) 0))",
    ),
    without("the token is the largest grant", "choose", "largest", "choice-above-counted"),
    without("only a chosen token is published", "publish", "chose", "raise-is-sound"),
    without("publish needs the owner", "publish", "owner", "raise-and-grant-differ"),
    without("publish not below the count", "publish", "count", "grant-upto-count"),
    without("publish only where admitted", "publish", "admitted", "era-is-promised"),
    without("only a chosen token wins", "win", "chose", "win-is-sound"),
    without("an attempt wins once", "win", "once", "later-granted-more"),
    without("a majority is published", "win", "majority", "win-is-sound"),
    weaker(
        without("a late grant above the token is out", "win", "published", "winners-published"),
        "n Node",
        "(=> (in n Q) (or (published A n (qm n)) (exists ((e Era) (c Count))
             (and (grant A n (qm n) e c) (below (token-era A) (token-count A) e c)))))",
    ),
    without("only a lease is renewed", "heal", "won", "holder-above-grants"),
    without("renew heals only what is free", "heal", "free", "one-lock"),
];

/// The rules for those who share a lock.
const SHARING: &[Mutant] = &[
    weaker(
        without("one that is alone waits for parts", "acquire", "free", "one-lock"),
        "a Attempt",
        "(=> (lock N a) (shared a))",
    ),
    weaker(
        without("one that shares waits for who is alone", "acquire", "free", "one-lock"),
        "a Attempt",
        "(=> (lock N a) (shared A))",
    ),
    without("only who began joins", "join", "began", "grant-is-sound"),
    weaker(
        without("nobody joins at a node that forgot", "join", "admitted", "forgotten-granted-none"),
        "",
        "(or (admitted N (fleet A)) (forgotten N))",
    ),
    weaker(
        without("nor at a sealed one", "join", "admitted", "sealers-grant-no-f"),
        "",
        "(or (admitted N (fleet A)) (sealed N))",
    ),
    without("nobody joins to be alone", "join", "shares", "one-lock"),
    without("the first part is counted", "join", "others", "sharer-above-grants"),
    weaker(without("nobody joins who is alone", "join", "others", "one-lock"), "", "(lock N B)"),
    without("the first in an era is counted", "join", "counted", "grants-differ"),
    weaker(
        without("publish needs a part", "publish", "owner", "raise-and-grant-differ"),
        "",
        "(or (lock N A) (shared A))",
    ),
    weaker(
        without("and a part of its own", "publish", "owner", "raise-and-grant-differ"),
        "",
        "(or (lock N A) (and (shared A) (exists ((b Attempt)) (and (lock N b) (shared b)))))",
    ),
    without("who shares raises the count", "heal", "alone", "sharer-above-grants"),
    without("only a lease sets its part again", "heal part", "won", "sharer-above-grants"),
    without("not one that is alone", "heal part", "shares", "one-lock"),
    without("only where admitted", "heal part", "admitted", "era-is-promised"),
    without("not beside one that is alone", "heal part", "free", "one-lock"),
    without("a part lowers no count", "heal part", "count", "grant-upto-count"),
    weaker(
        without(
            "a part raises the count to its token",
            "heal part",
            "raised",
            "sharer-above-grants",
        ),
        "",
        "(and (= E (era N)) (= C (count N)))",
    ),
];

/// The rules of nodes, of a re-admission, of a collection.
const READMISSION: &[Mutant] = &[
    without("a stretch of memory is new", "forget", "memory is new", "reader-tells"),
    without("one lock at a time", "forget", "one lock", "one-lock"),
    without(
        "only an admitted node raises its era",
        "other resource",
        "admitted",
        "era-is-promised",
    ),
    without("only to a promised era", "other resource", "promised", "era-is-promised"),
    without("only to a larger era", "other resource", "larger", "grant-upto-count"),
    without("a count is used up, and not taken back", "use up", "larger", "grant-upto-count"),
    without("read after the target's prepare", "read", "prepared", "read-after-prepare"),
    without("a client prepares once", "prepare", "once", "reader-tells"),
    weaker(
        without("a node that forgot is not read", "read", "admitted", "reader-tells"),
        "",
        "(or (admitted N (under X)) (forgotten N))",
    ),
    weaker(
        without("a sealed node is not read under f", "read", "admitted", "sealers-not-read"),
        "",
        "(or (admitted N (under X)) (sealed N))",
    ),
    without("a majority is read", "aim", "majority", "aim-above-past"),
    without("the era is from what was read", "aim", "read", "aim-above-past"),
    without("the era is larger", "aim", "above", "aim-above-past"),
    weaker(
        without("the era is not the one that was read", "aim", "above", "aim-above-past"),
        "n Node",
        "(=> (in n Q) (>= E (qv n)))",
    ),
    without("the era that was aimed at is promised", "confirm", "aims", "fleets-in-order"),
    without("a majority promises", "confirm", "majority", "fleets-in-order"),
    // Each of them promised at some time, and may have forgotten it since and be back.
    weaker(
        without("they promise at one moment", "confirm", "held", "promise-is-kept"),
        "n Node",
        "(=> (in n Q) (admitted n (under X)))",
    ),
    weaker(
        without("a sealed node promises nothing under f", "confirm", "held", "floor-above-f"),
        "n Node",
        "(=> (in n Q) (and (>= (written n) E) (or (admitted n (under X)) (sealed n))))",
    ),
    without("a promise is of one majority", "confirm", "first", "reader-tells"),
    without("the era that was aimed at is activated", "activate", "aims", "back-in-larger-era"),
    without("it is promised", "activate", "promised", "era-is-promised"),
    without("in the memory that was prepared", "activate", "nonce", "back-in-larger-era"),
    without("a node of g does not come back under f", "activate", "fleet", "sealers-left-f"),
    without("nor does a sealed one", "activate", "seal", "sealers-left-f"),
    without("an era only grows", "activate", "grows", "grant-upto-count"),
];

/// The rules of the move.
const MOVE: &[Mutant] = &[
    without("only a node that remembers is sealed", "seal", "admitted", "answer-tells"),
    without("and says so again", "seal again", "has left", "answer-seals"),
    without("a majority of f is sealed", "moment", "majority", "sealers-of-f"),
    without("each of it answered", "moment", "answered", "sealers-left-f"),
    without("they are sealed at one moment", "moment", "held", "sealers-left-f"),
    without("the floor is above what they told", "moment", "above", "floor-above-f"),
    without("f is not started on a sealed node", "survey", "seal", "start-of-f-not-late"),
    without("nor on a node of g", "survey", "fleet", "start-of-f-not-late"),
    without("g starts above the floor", "survey", "floor", "pick-above-f"),
    without("and a fleet above what is written on it", "survey", "above", "pick-above-past"),
    weaker(
        without("not with an era that is reserved", "survey", "above", "pick-above-past"),
        "n Node",
        "(=> (member n (under X)) (or (> E (written n)) (= E (reserved n))))",
    ),
    without("the majority that remembers is of it", "survey", "majority", "pick-above-past"),
    without("a majority remembers", "survey", "minority forgot", "pick-above-past"),
    without("only a starter's era is promised", "promise", "starting", "fleets-in-order"),
    without("in the memory that was prepared", "promise", "nonce", "fleets-in-order"),
    without("a sealed node does not promise f", "promise", "seal", "fleets-in-order"),
    without("nor does a node of g", "promise", "fleet", "fleets-in-order"),
    without("a majority of it promises", "promise", "majority", "fleets-in-order"),
    without("and holds the promise", "promise", "held", "promise-is-kept"),
    without("it is of one majority", "promise", "first", "reader-tells"),
    without("only who prepared all nodes starts them", "start", "starting", "back-in-larger-era"),
    without("in the memory that was prepared", "start", "nonce", "back-in-larger-era"),
    without("only in a promised era", "start", "promised", "era-is-promised"),
    without("f is not started on a node of g", "start", "fleet", "sealers-left-f"),
    without("nor on a sealed one", "start", "seal", "sealers-left-f"),
    without("an era only grows", "start", "grows", "grant-upto-count"),
];

/// What the code checks and order does not need: each step is proved without it.
const SPARE: &[Mutant] = &[
    // A count is compared with its era, so no older memory's token passes.
    without("publish needs the nonce", "publish", "nonce", ""),
    without("publish follows a grant", "publish", "granted less", ""),
    weaker(
        without("a sealed node does not publish", "publish", "admitted", ""),
        "",
        "(or (admitted N (fleet A)) (sealed N))",
    ),
    without("renew only where admitted", "heal", "admitted", ""),
    without("a client starts once", "survey", "once", ""),
];

fn step(mutant: &Mutant) -> Step {
    let step = steps().into_iter().find(|step| step.name == mutant.step);
    let step = step.unwrap_or_else(|| panic!("no step {}", mutant.step));
    step.without(mutant.rule, mutant.instead.map(|(vars, body)| fact(mutant.rule, vars, body)))
}

/// All rules that are needed.
pub fn mutants() -> Vec<&'static Mutant> {
    [ATTEMPT, SHARING, READMISSION, MOVE].into_iter().flatten().collect()
}

/// What a mutant breaks.
pub fn broken(mutant: &Mutant) -> Obligation {
    let mut kept = kept(&step(mutant)).into_iter();
    kept.find(|obligation| obligation.goal == mutant.breaks).expect(mutant.what)
}

/// What holds though the rules that order does not need are left out.
pub fn spared() -> Vec<Obligation> {
    SPARE.iter().flat_map(|mutant| kept(&step(mutant))).collect()
}

/// The rules of the steps of which nothing is said here.
pub fn untold() -> Vec<String> {
    let told = |step: &str, rule: &str| {
        mutants().into_iter().chain(SPARE).any(|m| m.step == step && m.rule == rule)
    };
    let rules = steps()
        .into_iter()
        .flat_map(|step| step.rules.iter().map(|rule| (step.name, rule.name)).collect::<Vec<_>>());
    let untold = rules.filter(|(step, rule)| !told(step, rule));
    untold.map(|(step, rule)| format!("{step}: {rule}")).collect()
}
