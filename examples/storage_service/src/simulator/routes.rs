use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::play::{Played, PlayedStep, Player, Script};
use super::rules::{self, Rule};
use crate::error::ApiError;
use crate::page::{SCRIPT, file, from_the_page};

/// The largest question, in bytes.
const LARGEST: usize = 1 << 14;
/// The longest play, in moves.
const LONGEST: usize = 300;

/// What to play. The service keeps nothing between two questions: the moves are all there is.
#[derive(Deserialize)]
struct Question {
    /// `rule` is the world of the rule.
    world: String,
    #[serde(default)]
    rule: Option<String>,
    /// Whether the rule is switched off.
    #[serde(default)]
    off: bool,
    #[serde(flatten)]
    script: Script,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    played: Played,
    /// Where the play is another one with the rule switched the other way.
    parts: Option<Parting>,
}

#[derive(Serialize)]
struct Parting {
    at: usize,
    /// What happens there instead.
    instead: Option<PlayedStep>,
}

pub fn router() -> Router {
    let play = post(play).layer(DefaultBodyLimit::max(LARGEST)).layer(from_fn(from_the_page));
    Router::new()
        .route("/simulator", file("text/html", include_str!("../../assets/simulator.html")))
        .route("/simulator.css", file("text/css", include_str!("../../assets/simulator.css")))
        .route("/simulator.js", file(SCRIPT, include_str!("../../assets/simulator.js")))
        .route("/arrows.js", file(SCRIPT, include_str!("../../assets/arrows.js")))
        // What the rules are taken from.
        .route("/protocol.md", file("text/plain", include_str!("../../../../docs/assurance/protocol.md")))
        .route("/simulator/rules", get(async || Json(Rule::all())))
        .route("/simulator/play", play)
}

/// `POST /simulator/play`: what comes of these moves, and what can happen next.
async fn play(Json(question): Json<Question>) -> Result<Json<Answer>, ApiError> {
    let length = question.script.moves.len().saturating_add(question.script.random);
    if length > LONGEST {
        return Err(ApiError::bad(format!("a play has at most {LONGEST} moves")));
    }
    let answer = tokio::task::spawn_blocking(move || answer(question)).await;
    answer.map_err(ApiError::unavailable)?.map(Json)
}

fn answer(question: Question) -> Result<Answer, ApiError> {
    let Question { world, rule, off, script } = question;
    let find = |name: String| rules::find(&name).ok_or(ApiError::not_found("there is no such rule"));
    let rule = rule.map(find).transpose()?;
    let case = rules::world(&world, rule).ok_or(ApiError::not_found("there is no such world"))?;
    let played = case.visit(rule.filter(|_| off), Player(&script));
    let parts = rule.and_then(|rule| {
        let moves = played.steps.iter().map(|step| step.name.clone()).collect();
        let script = Script { moves, ..Script::default() };
        let other = case.visit(Some(rule).filter(|_| !off), Player(&script));
        let at = played.parts(&other)?;
        Some(Parting { at, instead: other.steps.get(at).cloned() })
    });
    Ok(Answer { played, parts })
}
