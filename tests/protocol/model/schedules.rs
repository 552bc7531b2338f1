//! For each rule a shortest schedule that breaks a promise without it, in the world of `cases.rs`. The
//! search of `every_mutant_dies` compares them with what it finds.
//!
//! `deliver 1@2` is a step of client 1 with node 2, `flush@2` one of node 2 alone.

use crate::model::cases::{Case, Locks};
use crate::model::lists::Step;
use crate::model::mutant::Mutant;
use crate::model::world::Action;

pub enum Schedule {
    Locks(Vec<Action>),
    Lists(Vec<Step>),
}

impl Schedule {
    /// The given steps of the case, and those that the search found after them.
    #[must_use]
    pub fn of(mutant: Mutant) -> Schedule {
        match Case::of(mutant) {
            Case::Locks(Locks { lead, .. }) => {
                Schedule::Locks(lead.into_iter().chain(steps(locks(mutant)).map(action)).collect())
            }
            Case::Lists { .. } => Schedule::Lists(steps(lists(mutant)).map(step).collect()),
        }
    }
}

/// The verb of each step, who takes it, and the node.
fn steps(schedule: &'static str) -> impl Iterator<Item = (&'static str, u8, u8)> {
    schedule.split(", ").filter(|step| !step.is_empty()).map(|step| {
        let (verb, node) = step.split_once('@').expect("a node");
        let (verb, who) = verb.split_once(' ').unwrap_or((verb, "0"));
        (verb, who.parse().expect("a number"), node.parse().expect("a number"))
    })
}

fn action((verb, who, node): (&str, u8, u8)) -> Action {
    let client = who;
    match verb {
        "acquire" => Action::Acquire { client, node },
        // Its own lock has vanished meanwhile, and the answer is lost.
        "again" => Action::AcquireAgain { client, node, expired: true, lost: true },
        "deliver" => Action::Deliver { client, node },
        "publish" => Action::Publish { client, node },
        "renew" => Action::Renew { client, node },
        "flush" => Action::Flush { node },
        "save" => Action::Save { node },
        "restore" => Action::Restore { node },
        "prepare" => Action::Prepare { who, node, collect: false },
        "readmit" => Action::Readmit { who, node },
        other => panic!("{other} is no step"),
    }
}

fn step((verb, who, server): (&str, u8, u8)) -> Step {
    match verb {
        "run" => Step::Run { who, server },
        "lose" => Step::Lose { server },
        other => panic!("{other} is no step"),
    }
}

fn locks(mutant: Mutant) -> &'static str {
    match mutant {
        Mutant::NoPublish => {
            "acquire 0@0, acquire 1@1, deliver 0@0, acquire 1@0, acquire 0@1, deliver 1@0, \
             deliver 0@1, deliver 1@1"
        }
        Mutant::PublishToAnyOwner => {
            "acquire 0@0, acquire 1@1, deliver 0@0, acquire 1@0, acquire 0@1, deliver 1@0, \
             deliver 0@1, publish 0@0, deliver 1@1, publish 1@1"
        }
        Mutant::LateGrantsCount => {
            "acquire 0@0, acquire 0@1, acquire 1@2, deliver 0@0, acquire 1@1, acquire 0@2, \
             deliver 1@1, deliver 0@2, publish 0@0, acquire 1@0, deliver 1@2, deliver 1@0"
        }
        Mutant::MajorityOfAnswers => "acquire 0@0, acquire 1@1, deliver 0@0, deliver 1@1",
        Mutant::PublishBelowCount => {
            "acquire 0@0, acquire 0@1, acquire 1@2, deliver 0@0, acquire 1@0, acquire 1@1, \
             acquire 0@2, deliver 0@2, again 0@0, deliver 1@1, publish 0@0, deliver 1@0"
        }
        Mutant::EmptyNodesVote => {
            "acquire 0@0, acquire 0@1, acquire 1@2, deliver 0@0, flush@0, deliver 0@1, \
             acquire 1@0, deliver 1@2, deliver 1@0"
        }
        Mutant::NobodyIsRead => {
            "acquire 0@0, acquire 0@1, acquire 1@2, deliver 0@0, flush@0, deliver 0@1, \
             prepare 0@0, readmit 0@1, deliver 1@2, readmit 0@2, readmit 0@1, readmit 0@2, \
             readmit 0@0, acquire 1@0, deliver 1@0"
        }
        Mutant::NoNewEra => {
            "acquire 0@0, deliver 0@0, flush@0, prepare 0@0, readmit 0@1, readmit 0@2, \
             readmit 0@1, readmit 0@2, readmit 0@0, acquire 0@1, acquire 1@2, deliver 0@1, \
             deliver 1@2, acquire 1@0, deliver 1@0"
        }
        Mutant::PublishToAnyMemory => {
            "acquire 0@0, acquire 0@1, acquire 1@2, deliver 0@0, save@0, acquire 1@1, \
             acquire 1@0, acquire 0@2, deliver 1@1, deliver 1@0, restore@0, prepare 0@0, \
             readmit 0@1, deliver 0@2, readmit 0@2, readmit 0@1, readmit 0@2, readmit 0@0, \
             publish 0@0"
        }
        Mutant::NoReserve => {
            "acquire 0@1, acquire 1@2, acquire 0@0, deliver 0@1, deliver 0@0, flush@0, \
             prepare 1@0, readmit 1@1, publish 0@1, deliver 1@2, readmit 1@2, readmit 1@2, \
             readmit 1@1, readmit 1@0, acquire 1@0, deliver 1@0, publish 1@2"
        }
        Mutant::NoConfirm => {
            "acquire 1@1, acquire 1@2, acquire 1@0, deliver 1@1, deliver 1@2, deliver 1@0, \
             publish 1@1, publish 1@2"
        }
        Mutant::ActivateAnyMemory => {
            "acquire 0@1, acquire 1@2, acquire 0@0, deliver 0@1, deliver 0@0, publish 0@1, \
             flush@0, readmit 1@0, deliver 1@2, acquire 1@0, deliver 1@0, publish 1@2"
        }
        Mutant::ActivateDropsAlways => {
            "acquire 0@1, acquire 1@2, acquire 0@0, deliver 0@1, deliver 0@0, publish 0@1, \
             readmit 1@0, acquire 1@0, deliver 1@2, deliver 1@0, publish 1@2"
        }
        Mutant::StartsWhileRemembered => {
            "deliver 0@1, flush@1, prepare 1@1, readmit 1@0, deliver 0@2, readmit 1@2, \
             readmit 1@0, publish 0@2, readmit 1@2, readmit 1@1, acquire 1@0, deliver 1@0, \
             acquire 1@1, deliver 1@1, publish 1@0"
        }
        Mutant::HealsOverCounts => {
            "acquire 0@0, acquire 0@1, deliver 0@0, acquire 1@0, deliver 0@1, acquire 1@1, \
             deliver 1@0, deliver 1@1, renew 0@2, renew 0@0"
        }
        Mutant::RenewalOfOne => {
            "acquire 0@0, acquire 0@1, deliver 0@0, acquire 1@0, deliver 0@1, acquire 1@1, \
             deliver 1@0, deliver 1@1, renew 0@2"
        }
        Mutant::SharedIsNotCounted => {
            "acquire 0@0, acquire 0@1, acquire 1@2, deliver 0@0, acquire 1@0, deliver 0@1, \
             deliver 1@2, deliver 1@0"
        }
        Mutant::SharedHealsBelowToken => {
            "acquire 1@2, acquire 1@0, deliver 1@2, acquire 2@2, deliver 1@0, publish 1@2, \
             renew 1@1, acquire 2@1, deliver 2@1, deliver 2@2"
        }
        Mutant::NoStartPromise | Mutant::ReadsBeforeMarks | Mutant::NoFleetCheck => "",
    }
}

/// Without the fleet check there is nothing to be done: both lists vote from the start.
fn lists(mutant: Mutant) -> &'static str {
    match mutant {
        Mutant::NoStartPromise => {
            "run 0@0, run 0@1, run 0@2, run 0@0, run 0@1, run 0@2, run 0@0, run 0@1, run 0@2, \
             run 0@0, run 0@1, run 0@2, run 0@0, run 1@1, run 1@2, lose@0, run 1@0, run 1@0, \
             run 1@1, run 1@2, run 1@0, run 1@1, run 1@2, run 1@0, run 1@1, run 1@2, run 1@0"
        }
        Mutant::ReadsBeforeMarks => {
            "run 0@0, run 0@1, run 0@2, run 0@0, run 0@1, run 0@2, run 0@0, run 1@1, run 0@1, \
             run 1@2, run 0@2, run 0@0, run 0@1, run 0@2, run 0@0, lose@0, run 1@0, run 1@0, \
             run 1@1, run 1@2, run 1@0, run 1@1, run 1@2, run 1@0, run 1@1, run 1@2, run 1@0"
        }
        _ => "",
    }
}
