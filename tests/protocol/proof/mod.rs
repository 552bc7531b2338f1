//! Order, proved for any number of nodes, attempts and losses: see docs/proof.md.

mod fact;
mod invariant;
mod mutants;
mod obligation;
mod order;
mod script;
mod solver;
mod state;
mod steps;
mod witness;
mod words;

use std::time::{Duration, Instant};

use obligation::Obligation;
use solver::{Answer, Verdict};

/// For each question; the slowest takes less than a second.
const LIMIT: Duration = Duration::from_secs(600);

/// `FENCING_PROOF=publish` asks of one step, `FENCING_PROOF=publish/one-lock` one question;
/// the text is printed, to be given to the solver by hand.
fn selected(mut all: Vec<Obligation>) -> Vec<Obligation> {
    let Ok(only) = std::env::var("FENCING_PROOF") else { return all };
    all.retain(|o| o.step == only || format!("{}/{}", o.step, o.goal) == only);
    all.iter().for_each(|o| println!("; {}/{}\n{}(check-sat)", o.step, o.goal, o.text));
    all
}

/// Fails unless every question is answered so.
fn assert_all(answers: &[Answer], wanted: Verdict) {
    let others = answers.iter().filter(|answer| answer.verdict != wanted);
    let others =
        others.map(|Answer { step, goal, verdict, .. }| format!("{step}/{goal}: {verdict:?}"));
    let others: Vec<String> = others.collect();
    assert!(others.is_empty(), "not {wanted:?}: {others:#?}");
}

#[test]
fn order_holds() {
    let started = Instant::now();
    let answers = solver::ask(&selected(obligation::all()), LIMIT);
    for step in answers.chunk_by(|a, b| a.step == b.step) {
        let took: Duration = step.iter().map(|answer| answer.took).sum();
        println!("{:16}{:4} obligations {:7.2} s", step[0].step, step.len(), took.as_secs_f64());
    }
    println!(
        "{:16}{:4} obligations, {:.1?} in all",
        "order holds",
        answers.len(),
        started.elapsed()
    );
    assert_all(&answers, Verdict::Proved);
}

#[test]
fn leases_are_won_in_order() {
    let started = Instant::now();
    let answers = solver::ask(&selected(witness::obligations()), LIMIT);
    println!("a run of a small world: {} steps, {:.1?}", answers.len(), started.elapsed());
    assert_all(&answers, Verdict::Proved);
}

#[test]
fn leases_that_share_a_lock_are_won_in_order() {
    let answers = solver::ask(&selected(witness::sharers()), LIMIT);
    println!("runs of those who share a lock: {} steps", answers.len());
    assert_all(&answers, Verdict::Proved);
}

/// A rule of those who share a lock is left out, and two leases win one token.
#[test]
fn a_careless_node_gives_one_token_to_two_modes() {
    let answers = solver::ask(&selected(witness::careless()), LIMIT);
    println!("runs in which a rule is left out: {} steps", answers.len());
    assert_all(&answers, Verdict::Proved);
}

#[test]
fn an_era_that_is_written_is_not_used() {
    assert_all(&solver::ask(&selected(witness::token_twice()), LIMIT), Verdict::Proved);
}

#[test]
fn every_rule_is_needed() {
    let started = Instant::now();
    let mutants = mutants::mutants();
    let questions: Vec<_> = mutants.iter().map(mutants::broken).collect();
    let answers = solver::ask(&questions, LIMIT);
    for (mutant, answer) in mutants.iter().zip(&answers) {
        println!("{:16}{:44}breaks {}", answer.step, mutant.what, answer.goal);
    }
    println!("{} rules left out, {:.1?}", answers.len(), started.elapsed());
    assert_all(&answers, Verdict::Refuted);
    let untold = mutants::untold();
    assert!(untold.is_empty(), "nobody says whether these are needed: {untold:#?}");
}

#[test]
fn some_rules_are_spare() {
    let answers = solver::ask(&selected(mutants::spared()), LIMIT);
    println!("without the spare rules: {} obligations", answers.len());
    assert_all(&answers, Verdict::Proved);
}
