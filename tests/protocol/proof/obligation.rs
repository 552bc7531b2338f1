//! What is to be proved, one question for the solver each.

use crate::proof::fact::Fact;
use crate::proof::invariant::{Conjunct, conjuncts, invariant, named};
use crate::proof::order::ORDER;
use crate::proof::script::{assert, deny, language, taken};
use crate::proof::steps::{Step, steps};
use crate::proof::{state, words};

/// A question: the text has no model if the goal holds.
pub struct Obligation {
    /// The step after which it must hold, or what else is proved.
    pub step: &'static str,
    pub goal: &'static str,
    pub text: String,
}

/// Everything: the start, each step and each conjunct that it touches, and order.
pub fn all() -> Vec<Obligation> {
    let started = invariant().iter().map(|part| at_start(&part.fact));
    let kept = steps().iter().flat_map(kept);
    started.chain(kept).chain(conjuncts(ORDER).iter().map(follows)).collect()
}

/// The conjunct holds in a fleet that was just started.
fn at_start(goal: &Fact) -> Obligation {
    let mut text = language();
    text += state::PARAMS;
    assert(&mut text, &state::started());
    text += &deny(goal, &[]);
    Obligation { step: "started", goal: goal.name, text }
}

/// The step keeps each conjunct that speaks of a word which it changes; the others are the
/// same sentence before and after.
pub fn kept(step: &Step) -> Vec<Obligation> {
    let changed = words::with_derived(&step.changed());
    let touched = invariant().iter().filter(|part| words::mentions(part.fact.body, &changed));
    touched.map(|part| kept_part(step, part, &changed)).collect()
}

fn kept_part(step: &Step, part: &Conjunct, changed: &[&str]) -> Obligation {
    let mut text = language();
    assert(&mut text, std::slice::from_ref(&part.fact));
    assert(&mut text, &named(&part.because));
    taken(&mut text, step);
    text += &deny(&part.fact, changed);
    Obligation { step: step.name, goal: part.fact.name, text }
}

/// Order follows from the invariant.
fn follows(goal: &Conjunct) -> Obligation {
    let mut text = language();
    assert(&mut text, &named(&goal.because));
    text += &deny(&goal.fact, &[]);
    Obligation { step: "order", goal: goal.fact.name, text }
}
