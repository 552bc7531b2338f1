//! For each rule a shortest schedule that breaks a promise without it, in the world of `cases.rs`. The
//! search of `every_mutant_dies` compares them with what it finds.

use crate::model::cases::{Case, Locks};
use crate::model::lists::Step;
use crate::model::mutant::Mutant;
use crate::model::script::{actions, steps};
use crate::model::world::Action;

pub enum Schedule {
    Locks(Vec<Action>),
    Lists(Vec<Step>),
}

impl Schedule {
    /// The given steps of the case, and those that the search found after them.
    pub fn of(mutant: Mutant) -> Schedule {
        let name = format!("{mutant:?}: ");
        let script = SCHEDULES.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
        match Case::of(mutant) {
            Case::Locks(Locks { lead, .. }) => Schedule::Locks([lead, actions(script)].concat()),
            Case::Lists { .. } => Schedule::Lists(steps(script)),
        }
    }
}

/// By the names of the rules. Without the fleet check there is nothing to be done: both lists vote from the start.
const SCHEDULES: &str = "\
NoPublish: acquire 0@0, acquire 1@1, deliver 0@0, acquire 1@0, acquire 0@1, deliver 1@0, deliver 0@1, deliver 1@1
PublishToAnyOwner: acquire 0@0, acquire 1@1, deliver 0@0, acquire 1@0, acquire 0@1, deliver 1@0, deliver 0@1, \
    publish 0@0, deliver 1@1, publish 1@1
LateGrantsCount: acquire 0@01, acquire 1@2, deliver 0@0, acquire 1@1, acquire 0@2, deliver 1@1, deliver 0@2, \
    publish 0@0, acquire 1@0, deliver 1@20
MajorityOfAnswers: acquire 0@0, acquire 1@1, deliver 0@0, deliver 1@1
PublishBelowCount: acquire 0@01, acquire 1@2, deliver 0@0, acquire 1@01, acquire 0@2, deliver 0@2, again 0@0, \
    deliver 1@1, publish 0@0, deliver 1@0
EmptyNodesVote: acquire 0@01, acquire 1@2, deliver 0@0, flush@0, deliver 0@1, acquire 1@0, deliver 1@20
NobodyIsRead: acquire 0@01, acquire 1@2, deliver 0@0, flush@0, deliver 0@1, prepare 0@0, readmit 0@1, deliver 1@2, \
    readmit 0@2120, acquire 1@0, deliver 1@0
NoNewEra: acquire 0@0, deliver 0@0, flush@0, prepare 0@0, readmit 0@12120, acquire 0@1, acquire 1@2, deliver 0@1, \
    deliver 1@2, acquire 1@0, deliver 1@0
PublishToAnyMemory: acquire 0@01, acquire 1@2, deliver 0@0, save@0, acquire 1@10, acquire 0@2, deliver 1@10, \
    restore@0, prepare 0@0, readmit 0@1, deliver 0@2, readmit 0@2120, publish 0@0
NoReserve: acquire 0@1, acquire 1@2, acquire 0@0, deliver 0@10, flush@0, prepare 1@0, readmit 1@1, publish 0@1, \
    deliver 1@2, readmit 1@2210, acquire 1@0, deliver 1@0, publish 1@2
NoConfirm: acquire 1@120, deliver 1@120, publish 1@12
ActivateAnyMemory: acquire 0@1, acquire 1@2, acquire 0@0, deliver 0@10, publish 0@1, flush@0, readmit 1@0, \
    deliver 1@2, acquire 1@0, deliver 1@0, publish 1@2
ActivateDropsAlways: acquire 0@1, acquire 1@2, acquire 0@0, deliver 0@10, publish 0@1, readmit 1@0, acquire 1@0, \
    deliver 1@20, publish 1@2
StartsWhileRemembered: deliver 0@1, flush@1, prepare 1@1, readmit 1@0, deliver 0@2, readmit 1@20, publish 0@2, \
    readmit 1@21, acquire 1@0, deliver 1@0, acquire 1@1, deliver 1@1, publish 1@0
HealsOverCounts: acquire 0@01, deliver 0@0, acquire 1@0, deliver 0@1, acquire 1@1, deliver 1@01, renew 0@20
RenewalOfOne: acquire 0@01, deliver 0@0, acquire 1@0, deliver 0@1, acquire 1@1, deliver 1@01, renew 0@2
SharedIsNotCounted: acquire 0@01, acquire 1@2, deliver 0@0, acquire 1@0, deliver 0@1, deliver 1@20
SharedHealsBelowToken: acquire 1@20, deliver 1@2, acquire 2@2, deliver 1@0, publish 1@2, renew 1@1, acquire 2@1, \
    deliver 2@12
NoStartPromise: run 0@0120120120120, run 1@12, lose@0, run 1@00120120120
ReadsBeforeMarks: run 0@0120120, run 1@1, run 0@1, run 1@2, run 0@20120, lose@0, run 1@00120120120";
