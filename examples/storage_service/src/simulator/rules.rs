use protocol::model::cases::Case;
use protocol::model::mutant::Mutant;
use protocol::model::schedules::Schedule;
use serde::Serialize;

use super::play::{Player, Script};
use super::scene::Scene;
use super::words;

/// A rule that can be switched off, for the page.
#[derive(Serialize)]
pub struct Rule {
    name: &'static str,
    /// In the words of the protocol.
    rule: &'static str,
    why: &'static str,
    /// The section of docs/protocol.md.
    section: &'static str,
    /// The moves that break a promise without the rule.
    schedule: Vec<String>,
    /// What then comes of it, in plain words.
    without: Vec<&'static str>,
    /// Whether a node forgets in the schedule, and is shut out while the rule holds.
    forgets: bool,
}

impl Rule {
    pub fn all() -> Vec<Rule> {
        let rule = |mutant: Mutant| {
            let (name, section, why) = described(mutant);
            let schedule = schedule(mutant);
            let play = |without: Option<Mutant>| {
                let script = Script { moves: schedule.clone(), ..Script::default() };
                Case::of(mutant).visit(without, Player(&script))
            };
            let without = play(Some(mutant)).broken.into_iter().map(words::harm).collect();
            let forgets = play(None).forgets();
            Rule { name, rule: mutant.rule(), why, section, schedule, without, forgets }
        };
        Mutant::ALL.into_iter().map(|(mutant, _)| rule(mutant)).collect()
    }
}

/// Returns the rule of this name.
pub fn find(name: &str) -> Option<Mutant> {
    let mut mutants = Mutant::ALL.into_iter().map(|(mutant, _)| mutant);
    mutants.find(|mutant| described(*mutant).0 == name)
}

fn schedule(mutant: Mutant) -> Vec<String> {
    use protocol::model::{lists::Lists, world::World};
    let world = World::<3, 0, 0>::new(Default::default(), None);
    match Schedule::of(mutant) {
        Schedule::Locks(actions) => actions.into_iter().map(|it| world.name(it)).collect(),
        Schedule::Lists(steps) => {
            let lists = Lists::<3, 0>::new(&[], &[], None);
            steps.into_iter().map(|step| lists.name(step)).collect()
        }
    }
}

/// Returns a world for the page: that of a rule, or one to play in.
pub fn world(name: &str, rule: Option<Mutant>) -> Option<Case> {
    match name {
        "rule" => rule.map(Case::of),
        "three" => Case::free(3),
        "five" => Case::free(5),
        "move" => Some(Case::moving()),
        _ => None,
    }
}

/// Returns the name of a rule, its section, and what it is for.
fn described(mutant: Mutant) -> (&'static str, &'static str, &'static str) {
    match mutant {
        Mutant::NoPublish => (
            "publish",
            "Acquire",
            "Nodes count each for itself. Who has grants with different counts raises the lower ones to its token, so that the next client finds it on a majority.",
        ),
        Mutant::PublishToAnyOwner => (
            "publish-owner",
            "Acquire",
            "If the lock has gone to somebody else meanwhile, the count that is raised comes too late for that one: the node must refuse.",
        ),
        Mutant::PublishToAnyMemory => (
            "publish-nonce",
            "Acquire",
            "A node that came back with an older copy has forgotten what it granted since. The nonce says whether it is still the memory that granted.",
        ),
        Mutant::PublishBelowCount => (
            "publish-count",
            "Acquire",
            "A request that the network repeats may lock again after others have counted on. A count above the token says so.",
        ),
        Mutant::LateGrantsCount => (
            "late-grants",
            "Acquire",
            "The token is chosen from the first majority. A grant above it that comes later is of a node where the token is not published.",
        ),
        Mutant::MajorityOfAnswers => (
            "majority",
            "Words",
            "Two majorities of all nodes share a node, which has heard of both clients. Majorities of those that answered need not.",
        ),
        Mutant::EmptyNodesVote => (
            "admitted",
            "Words",
            "A node that has lost its data would count from the beginning again.",
        ),
        Mutant::NobodyIsRead => (
            "read",
            "Re-admission",
            "Who brings a node back asks a majority for the largest era, so that the node's new era is above it.",
        ),
        Mutant::NoReserve => (
            "reserve",
            "Re-admission",
            "A majority promises the era before it is used. Without that, a node that forgets twice may get one era twice.",
        ),
        Mutant::NoConfirm => (
            "confirm",
            "Re-admission",
            "Promises must be held at one moment. Of five nodes, those that promised first may have forgotten when the last one does.",
        ),
        Mutant::NoStartPromise => (
            "start-promise",
            "Too few remember",
            "Two clients may start one fleet at one time. A majority promises the era, so that another start takes a larger one.",
        ),
        Mutant::ReadsBeforeMarks => (
            "start-read",
            "Too few remember",
            "The era is chosen from what is read after every node is marked. What was read before may be out of date.",
        ),
        Mutant::NoFleetCheck => (
            "fleet",
            "One list",
            "A node answers clients of the list under which it was admitted. Otherwise two lists that overlap would both have majorities.",
        ),
        Mutant::NoNewEra => (
            "new-era",
            "Re-admission",
            "A node comes back in a new, larger era. The others' counts, copied, miss the grants of which only the node knew.",
        ),
        Mutant::ActivateAnyMemory => (
            "activate-nonce",
            "Re-admission",
            "An activation that is late may meet a node that has forgotten again. The nonce says whether it is the memory that was prepared.",
        ),
        Mutant::ActivateDropsAlways => (
            "activate-era",
            "Re-admission",
            "A second activation in the same era must not drop what was counted since the first.",
        ),
        Mutant::StartsWhileRemembered => (
            "start-majority",
            "Too few remember",
            "Only where a majority has forgotten may an era come from a clock. Where a majority remembers, it knows of eras that the clock does not.",
        ),
        Mutant::HealsOverCounts => (
            "heal",
            "Renew, release",
            "A renewal sets a lock again that is missing, but not where another client has counted since: that lease has been followed.",
        ),
        Mutant::RenewalOfOne => (
            "renew-majority",
            "Renew, release",
            "One node that has not heard of the next client would renew a lease that is lost.",
        ),
        Mutant::SharedIsNotCounted => (
            "shared-count",
            "Shared mode",
            "Those who share a lock share a count. The first of them must count, or the lease has the token of the one before.",
        ),
        Mutant::SharedHealsBelowToken => (
            "shared-heal",
            "Shared mode",
            "A part that is set again raises the count to its token, because the next one that joins is granted the count as it stands.",
        ),
    }
}
