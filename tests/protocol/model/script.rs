//! Steps as text. `deliver 1@2` is a step of client 1 with node 2, `flush@2` one of node 2 alone, and
//! `readmit 0@121` is three steps: with node 1, with node 2, and with node 1 again.

use crate::model::lists::Step;
use crate::model::world::Action;

pub fn actions(script: &str) -> Vec<Action> {
    words(script).map(action).collect()
}

pub fn steps(script: &str) -> Vec<Step> {
    words(script).map(step).collect()
}

/// The verb of each step, who takes it, and the node.
fn words(script: &str) -> impl Iterator<Item = (&str, u8, u8)> {
    script.split(", ").filter(|step| !step.is_empty()).flat_map(|step| {
        let (verb, nodes) = step.split_once('@').expect("nodes");
        let (verb, who) = verb.split_once(' ').unwrap_or((verb, "0"));
        let who = who.parse().expect("a number");
        nodes.bytes().map(move |node| (verb, who, node - b'0'))
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
        "collect" => Action::Prepare { who, node, collect: true },
        "readmit" => Action::Readmit { who, node },
        "giveup" => Action::GiveUp { who, node },
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
