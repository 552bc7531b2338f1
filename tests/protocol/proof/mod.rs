//! Order, proved for any number of nodes, attempts and losses: see docs/assurance/proof.md.

mod fact;
mod invariant;
mod mutants;
mod obligation;
mod script;
mod solver;
mod steps;
mod witness;
mod words;

use std::time::{Duration, Instant};

use obligation::Obligation;
use solver::{Answer, Verdict};

/// `FENCING_PROOF=publish` asks of one step, `=publish/one-lock` one question, and prints the text to give to a solver.
fn selected(mut all: Vec<Obligation>) -> Vec<Obligation> {
    let Ok(only) = std::env::var("FENCING_PROOF") else { return all };
    all.retain(|o| o.step == only || format!("{}/{}", o.step, o.goal) == only);
    all.iter().for_each(|o| println!("; {}/{}\n{}(check-sat)", o.step, o.goal, o.text));
    all
}

fn assert_all(what: &str, questions: &[Obligation], wanted: Verdict) -> Vec<Answer> {
    let started = Instant::now();
    let answers = solver::ask(questions);
    println!("{what}: {} obligations, {:.1?} in all", answers.len(), started.elapsed());
    let others = answers.iter().filter(|answer| answer.verdict != wanted);
    let others = others.map(|Answer { step, goal, verdict, .. }| format!("{step}/{goal}: {verdict:?}"));
    let others: Vec<String> = others.collect();
    assert!(others.is_empty(), "not {wanted:?}: {others:#?}");
    answers
}

fn assert_proved(what: &str, questions: Vec<Obligation>) -> Vec<Answer> {
    assert_all(what, &selected(questions), Verdict::Proved)
}

#[test]
fn order_holds() {
    let answers = assert_proved("order holds", obligation::all());
    for step in answers.chunk_by(|a, b| a.step == b.step) {
        let took: Duration = step.iter().map(|answer| answer.took).sum();
        println!("{:16}{:4} obligations {:7.2} s", step[0].step, step.len(), took.as_secs_f64());
    }
}

#[test]
fn leases_are_won_in_order() {
    assert_proved("a run of a small world", witness::obligations());
    assert_proved("runs of those who share a lock", witness::sharers());
}

#[test]
fn every_rule_is_needed() {
    let mutants = mutants::mutants();
    let questions: Vec<_> = mutants.iter().map(mutants::broken).collect();
    let answers = assert_all("rules left out", &questions, Verdict::Refuted);
    for (mutant, answer) in mutants.iter().zip(&answers) {
        println!("{:16}{:44}breaks {}", answer.step, mutant.what, answer.goal);
    }
    let untold = mutants::untold();
    assert!(untold.is_empty(), "nobody says whether these are needed: {untold:#?}");
}

#[test]
fn some_rules_are_spare() {
    assert_proved("without the spare rules", mutants::spared());
}
