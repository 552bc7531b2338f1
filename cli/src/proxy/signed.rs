use fencing::http::{HEADER, Problem, SEQUENCER};
use fencing::{Resource, Sequencer, Token};
use http::{HeaderMap, HeaderName, StatusCode};
use percent_encoding::percent_decode_str;

use crate::listen::{HttpAnswer, problem};
use crate::signing::{SIGNATURE, SigningKeys};

/// Refuses a token of which no key says that it was issued for this resource. Nothing was asked of the
/// marks then, and none was raised.
pub(super) fn refused(
    headers: &HeaderMap,
    resources: &[Resource],
    keys: &SigningKeys,
) -> Option<HttpAnswer> {
    let (sequencer, signed) = match resources {
        [resource] => {
            let sequencer = Sequencer::new(resource.clone(), token(headers)?);
            let signature = one(headers, &SIGNATURE);
            let signed = signature.is_some_and(|signature| keys.verify(&sequencer, signature));
            (sequencer.to_string(), signed)
        }
        several => all(headers, several, keys)?,
    };
    if signed {
        return None;
    }
    metrics::counter!("fencing_admissions_total", "layer" => "http", "outcome" => "not_issued")
        .increment(1);
    let kind = (Problem::NOT_ISSUED, "Fencing token was never issued");
    let why = format!("header {SIGNATURE}: nobody has signed {sequencer}");
    Some(problem(StatusCode::BAD_REQUEST, kind, &why, None))
}

/// Returns whether each of the tokens was signed, the first by the first signature and so on. `None` if there
/// are none: the layer decides what that means. It also sees to it that they are those of the resources.
fn all(headers: &HeaderMap, resources: &[Resource], keys: &SigningKeys) -> Option<(String, bool)> {
    if !headers.contains_key(SEQUENCER) && !headers.contains_key(HEADER) {
        return None;
    }
    let names: Vec<&str> = resources.iter().map(Resource::as_str).collect();
    let mut signatures = headers.get_all(&SIGNATURE).iter();
    let signed = headers.get_all(SEQUENCER).iter().all(|sequencer| {
        let signature = signatures.next().and_then(|signature| signature.to_str().ok());
        let sequencer = sequencer.to_str().ok().and_then(read_sequencer);
        sequencer
            .zip(signature)
            .is_some_and(|(sequencer, signature)| keys.verify(&sequencer, signature))
    });
    Some((format!("all tokens of {}", names.join(", ")), signed))
}

/// Reads a sequencer as the layer does.
fn read_sequencer(text: &str) -> Option<Sequencer> {
    let (token, name) = text.split_once(' ')?;
    let name = percent_decode_str(name).decode_utf8().ok()?;
    Some(Sequencer::new(name.parse().ok()?, token.parse().ok()?))
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
