use fencing_protocol::{Mode, Reply, Request, Sealing, Stamp};

/// Returns a token as its era and its count.
pub fn token(token: u32) -> String {
    let (era, count) = (token / 1_000_000, token % 1_000_000);
    format!("{era}·{count}")
}

pub fn stamp(stamp: Stamp) -> String {
    format!("{}·{}", stamp.era, stamp.count)
}

pub fn request(request: &Request) -> String {
    match request {
        Request::Acquire { mode: Mode::Shared, .. } => "share".into(),
        Request::Acquire { .. } => "acquire".into(),
        Request::Publish { token, .. } => format!("publish {}", stamp((*token).into())),
        Request::Renew { .. } => "renew".into(),
        Request::Prepare { .. } => "prepare".into(),
        Request::Read => "read".into(),
        Request::Reserve { era, memory: None } => format!("reserve era {era}"),
        Request::Reserve { era, memory: Some(_) } => format!("reserve era {era} for a start"),
        Request::Activate { era, .. } => format!("activate in era {era}"),
        Request::Seal { step: Sealing::Leave, .. } => "seal".into(),
        Request::Seal { step: Sealing::Promise(era), .. } => format!("seal with era {era}"),
        Request::Seal { step: Sealing::Done(_), .. } => "done".into(),
        other => format!("{other:?}"),
    }
}

pub fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Granted { stamp: granted, .. } => format!("granted with {}", stamp(*granted)),
        Reply::Held { shared: false, .. } => "another client holds the lock".into(),
        Reply::Held { .. } => "others share the lock".into(),
        Reply::Exhausted => "its count has run out".into(),
        Reply::NotAdmitted => "it has forgotten, or was never admitted, and gives no vote".into(),
        Reply::OtherFleet(_) => "it belongs to another list of nodes".into(),
        Reply::Moved(_) => "it has left for another list of nodes".into(),
        Reply::Published => "its count is the token now".into(),
        Reply::Renewed => "the lock is there for another TTL".into(),
        Reply::NotOwner => {
            "the lock or the memory is not that of the grant any more, or the count is above the token".into()
        }
        Reply::Prepared(prepared) => format!(
            "its memory is marked with nonce {}, and it {} (era {}, promised {})",
            prepared.state.nonce.0,
            if prepared.admitted { "is admitted" } else { "is not admitted" },
            prepared.state.era,
            prepared.state.reserved,
        ),
        Reply::State(state) => format!("it is in era {}, and has promised {}", state.era, state.reserved),
        Reply::Reserved { .. } => "it promises that no smaller era begins".into(),
        Reply::Activated => "it is admitted".into(),
        Reply::Forgotten => "refused, as its memory is not the one that was prepared, or has been in that era".into(),
        other => format!("{other:?}"),
    }
}
