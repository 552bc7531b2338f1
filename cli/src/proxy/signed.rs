use fencing::http::{HEADER, Problem, SEQUENCER};
use fencing::{Resource, Sequencer};
use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode_str;

use crate::listen::{HttpAnswer, ProblemKind};
use crate::signing::{SIGNATURE, SigningKeys};

const NOT_ISSUED: ProblemKind = ProblemKind::new(
    StatusCode::BAD_REQUEST,
    Problem::NOT_ISSUED,
    "Fencing token was never issued",
);

/// Refuses tokens of which no key says that they were issued, the first by the first signature and so on. Nothing was
/// asked of the marks then, and none was raised. Where there is no token, or a malformed one, the layer decides.
pub(super) fn refused(
    headers: &HeaderMap,
    resources: &[Resource],
    keys: &SigningKeys,
) -> Option<HttpAnswer> {
    let sequencers = presented(headers, resources)?;
    let signatures: Vec<_> = headers.get_all(&SIGNATURE).iter().collect();
    let mut pairs = sequencers.iter().zip(&signatures);
    let signed = pairs.all(|(sequencer, signature)| {
        signature.to_str().is_ok_and(|signature| keys.verify(sequencer, signature))
    });
    if signed && signatures.len() == sequencers.len() {
        return None;
    }
    metrics::counter!("fencing_admissions_total", "layer" => "http", "outcome" => "not_issued")
        .increment(1);
    let tokens: Vec<String> = sequencers.iter().map(Sequencer::to_string).collect();
    let tokens = tokens.join(", ");
    Some(NOT_ISSUED.answer(format_args!("header {SIGNATURE}: nobody has signed {tokens}")))
}

/// Reads the tokens as the layer does. The layer checks that they are those of the resources.
fn presented(headers: &HeaderMap, resources: &[Resource]) -> Option<Vec<Sequencer>> {
    let mut tokens = headers.get_all(HEADER).iter();
    if let ([resource], Some(token)) = (resources, tokens.next()) {
        let token = token.to_str().ok()?.parse().ok()?;
        return Some(vec![Sequencer::new(resource.clone(), token)]);
    }
    let sequencers = headers.get_all(SEQUENCER).iter().map(|value| {
        let (token, name) = value.to_str().ok()?.split_once(' ')?;
        let name = percent_decode_str(name).decode_utf8().ok()?;
        Some(Sequencer::new(name.parse().ok()?, token.parse().ok()?))
    });
    sequencers.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}
