use fencing_protocol::Token;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::sequencer::{Sequencer, SequencerError};

/// The header that carries the token, unless the layer [names another](super::FenceLayer::header).
pub const HEADER: HeaderName = HeaderName::from_static("fencing-token");

/// The header, or gRPC metadata, that carries a token together with its resource: `34 docs/a`, the name
/// percent-encoded where a header needs that. A layer that finds it checks that the resource is its own, and
/// that the token is the one in [`HEADER`], if both are there. It replaces the token only if the layer has not
/// [named another header](super::FenceLayer::header) for it.
pub const SEQUENCER: HeaderName = HeaderName::from_static("fencing-sequencer");

/// The characters that are encoded, besides all that are not ASCII. The percent sign is one: the text can be decoded.
pub(super) const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Client side: puts the token and its resource into a request's headers, and replaces those that are
/// there. A server refuses them where its layer names another resource for the request.
pub fn attach_sequencer(headers: &mut HeaderMap, sequencer: &Sequencer) {
    attach(headers, sequencer.token);
    headers.insert(SEQUENCER, sequencer_value(sequencer));
}

/// Client side: puts the tokens of several resources into a request's headers, in place of those that are
/// there: for requests about several [resources](super::Resources), under a lease of all of them.
pub fn attach_all<'a>(headers: &mut HeaderMap, sequencers: impl IntoIterator<Item = &'a Sequencer>) {
    headers.remove(HEADER);
    headers.remove(SEQUENCER);
    for sequencer in sequencers {
        headers.append(SEQUENCER, sequencer_value(sequencer));
    }
}

pub(super) fn sequencer_value(sequencer: &Sequencer) -> HeaderValue {
    let name = utf8_percent_encode(sequencer.resource.as_str(), ENCODED);
    // Nothing is left that a header cannot hold.
    HeaderValue::try_from(format!("{} {name}", sequencer.token))
        .unwrap_or_else(|_| HeaderValue::from(sequencer.token.get()))
}

pub(super) fn read_sequencer(text: &str) -> Result<Sequencer, SequencerError> {
    let (token, name) = text.split_once(' ').ok_or(SequencerError::Malformed)?;
    let name = percent_decode_str(name).decode_utf8().map_err(|_| SequencerError::Malformed)?;
    Ok(Sequencer::new(name.parse()?, token.parse()?))
}

/// The header of a response with the answer that the fence would have given, if the layer runs in [shadow
/// mode](super::FenceLayer::shadow). It is an HTTP status, also for clients that speak gRPC.
pub const SHADOW: HeaderName = HeaderName::from_static("fencing-shadow");

/// Client side: puts the token of your lease into a request's headers, and replaces one that is there.
pub fn attach(headers: &mut HeaderMap, token: Token) {
    headers.insert(HEADER, HeaderValue::from(token.get()));
}
