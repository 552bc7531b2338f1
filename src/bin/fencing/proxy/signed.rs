use fencing::http::{HEADER, Problem, SEQUENCER};
use fencing::{Resource, Sequencer, Token};
use http::{HeaderMap, HeaderName, StatusCode};

use crate::listen::{Answer, problem};
use crate::signing::{Keys, SIGNATURE};

/// Refuses a token of which no key says that it was issued for this resource. Nothing was asked of the
/// marks then, and none was raised.
pub(super) fn refused(headers: &HeaderMap, resource: &Resource, keys: &Keys) -> Option<Answer> {
    let sequencer = Sequencer::new(resource.clone(), token(headers)?);
    if one(headers, &SIGNATURE).is_some_and(|signature| keys.verify(&sequencer, signature)) {
        return None;
    }
    metrics::counter!("fencing_admissions_total", "door" => "http", "outcome" => "not_issued")
        .increment(1);
    let kind = (Problem::NOT_ISSUED, "Fencing token was never issued");
    let why = format!("header {SIGNATURE}: nobody has signed {sequencer}");
    Some(problem(StatusCode::BAD_REQUEST, kind, &why, None))
}

/// Reads the token as the layer does. Where it is malformed, or sent twice, the layer refuses it.
fn token(headers: &HeaderMap) -> Option<Token> {
    match headers.contains_key(HEADER) {
        true => one(headers, &HEADER)?.parse().ok(),
        false => one(headers, &SEQUENCER)?.split_once(' ')?.0.parse().ok(),
    }
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}
