use fencing::Sequencer;
use fencing::http::{Fenced, Problem};
use http::{HeaderMap, StatusCode};

use crate::listen::{HttpAnswer, ProblemKind};
use crate::signing::{SIGNATURE, SigningKeys};

const NOT_ISSUED: ProblemKind = ProblemKind::new(
    StatusCode::BAD_REQUEST,
    Problem::NOT_ISSUED,
    "Fencing token was never issued",
);

/// Refuses tokens of which no key says that they were issued. Nothing was asked of the marks then, and none was raised.
pub(super) fn refused(
    headers: &HeaderMap,
    fenced: &Fenced,
    keys: &SigningKeys,
) -> Option<HttpAnswer> {
    let sequencers = fenced.sequencers();
    let signatures: Vec<_> =
        headers.get_all(&SIGNATURE).iter().flat_map(|it| it.to_str()).collect();
    let is_signed =
        |sequencer| signatures.iter().any(|signature| keys.verify(sequencer, signature));
    if signatures.len() == sequencers.len() && sequencers.iter().all(is_signed) {
        return None;
    }
    metrics::counter!("fencing_admissions_total", "layer" => "http", "outcome" => "not_issued")
        .increment(1);
    let tokens: Vec<String> = sequencers.iter().map(Sequencer::to_string).collect();
    let tokens = tokens.join(", ");
    Some(NOT_ISSUED.answer(format_args!("header {SIGNATURE}: no signature for {tokens}")))
}
