use protocol::model::cases::Case;
use protocol::model::mutant::Mutant;
use protocol::model::schedules::Schedule;
use serde::Serialize;

use super::play::{Player, Script};

/// A rule that can be switched off, for the page.
#[derive(Serialize)]
pub struct Rule {
    name: &'static str,
    /// In the words of the protocol.
    rule: &'static str,
    why: &'static str,
    /// The section of docs/assurance/protocol.md.
    section: &'static str,
    /// The moves that break a promise without the rule.
    schedule: Vec<String>,
    /// What then comes of it, in plain words.
    without: Vec<&'static str>,
}

impl Rule {
    pub fn all() -> Vec<Rule> {
        let rule = |mutant: Mutant| {
            let [name, section, why] = described(mutant);
            let schedule = schedule(mutant);
            let script = Script { moves: schedule.clone(), ..Script::default() };
            let broken = Case::of(mutant).visit(Some(mutant), Player(&script)).broken;
            let without = broken.into_iter().map(|(_, harm)| harm).collect();
            Rule { name, rule: mutant.rule(), why, section, schedule, without }
        };
        Mutant::ALL.into_iter().map(|(mutant, _)| rule(mutant)).collect()
    }
}

pub fn find(name: &str) -> Option<Mutant> {
    let mut mutants = Mutant::ALL.into_iter().map(|(mutant, _)| mutant);
    mutants.find(|mutant| described(*mutant)[0] == name)
}

fn schedule(mutant: Mutant) -> Vec<String> {
    match Schedule::of(mutant) {
        Schedule::Locks(actions) => actions.iter().map(|action| format!("{action:?}")).collect(),
        Schedule::Lists(steps) => steps.iter().map(|step| format!("{step:?}")).collect(),
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
fn described(mutant: Mutant) -> [&'static str; 3] {
    let rows = include_str!("../../assets/rules.txt").lines();
    let mut rows = rows.filter_map(|row| row.split(" | ").collect::<Vec<_>>().try_into().ok());
    let row = rows.find(|[of, ..]: &[&str; 4]| *of == format!("{mutant:?}"));
    row.map(|[_, name, section, why]| [name, section, why]).unwrap_or_default()
}
