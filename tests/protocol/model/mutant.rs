//! The rules, each of which can be left out: here, between model and library, so that the library has no switch. A
//! check or a step of the real code is left out by asking the code something else or by forging its answer.

use fencing_protocol::{Mode, NodeState, Nonce, Owner, Prepared, Reply, Request, Resource, Stamp, Store, Token};

use crate::model::node::{activate, ask, count_once, owner, token_of};
use crate::model::seam::{CONFIRM, READ, START_CONFIRM, STARTS};

/// Names the rules that can be left out, each in the words of the protocol.
macro_rules! rules {
    ($($name:ident: $rule:literal,)*) => {
        /// A rule that is left out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = $rule] $name,)*
        }

        impl Mutant {
            /// Every rule, in the order of docs/assurance/protocol.md.
            pub const ALL: [(Mutant, &str); [$($rule),*].len()] = [$((Mutant::$name, $rule)),*];
        }
    };
}

rules! {
    NoPublish: "acquire, step 3: the publish",
    PublishToAnyOwner: "publish: still has this owner",
    LateGrantsCount: "a late grant above the token must not count",
    MajorityOfAnswers: "a majority of all nodes, not of those that answered",
    PublishBelowCount: "publish: the count is not above the token",
    EmptyNodesVote: "the admitted check: a node that forgot does not vote",
    NobodyIsRead: "re-admission, step 2: the read from a majority",
    NoNewEra: "re-admission: a new era, not the others' counts copied",
    PublishToAnyMemory: "publish: the nonce of that grant (and the count not above the token)",
    NoReserve: "re-admission, step 3: the reserve before activate",
    NoConfirm: "re-admission, step 4: the promises of one moment (N = 5)",
    ActivateAnyMemory: "activate: only if the nonce is still there",
    ActivateDropsAlways: "activate: counts dropped only for a larger era",
    StartsWhileRemembered: "first start: only where a majority has forgotten (and the promise)",
    NoStartPromise: "first start: a majority promises the era",
    ReadsBeforeMarks: "first start: the era is above what is read after the marks",
    NoFleetCheck: "the fleet check: a node of another fleet does not vote",
    HealsOverCounts: "renew: heals only where the count is not above the token",
    RenewalOfOne: "renew: a majority of all nodes",
    SharedIsNotCounted: "shared mode: the first that shares a lock is counted",
    SharedHealsBelowToken: "shared mode: where a lock is set again, the count is raised to the token",
}

impl Mutant {
    pub fn rule(self) -> &'static str {
        let all = Mutant::ALL.iter();
        all.copied().find(|(mutant, _)| *mutant == self).map_or("", |(_, rule)| rule)
    }

    /// A node's answer with the rule left out.
    pub fn answer(self, store: &mut Store, life: u8, second: u8, request: &Request) -> Reply {
        let before = store.clone();
        let reply = ask(store, life, second, request);
        let mut again = |request: &Request| ask(store, life, second, request);
        match (self, request.clone()) {
            (Mutant::PublishToAnyOwner, Request::Publish { resource, nonce, token, .. })
                if reply == Reply::NotOwner =>
            {
                for owner in (0..4).map(owner) {
                    let resource = resource.clone();
                    again(&Request::Publish { resource, owner, nonce, token });
                }
                Reply::Published
            }
            (Mutant::PublishToAnyMemory, Request::Publish { resource, owner, token, .. })
                if reply == Reply::NotOwner =>
            {
                let nonce = look(&before, life, second).state.nonce;
                let publish = Request::Publish { resource: resource.clone(), owner, nonce, token };
                match again(&publish) {
                    Reply::NotOwner if holds(&before, life, second, resource, owner) => Reply::Published,
                    reply => reply,
                }
            }
            (Mutant::PublishBelowCount, Request::Publish { resource, owner, nonce, .. })
                if reply == Reply::NotOwner && look(&before, life, second).state.nonce == nonce =>
            {
                match holds(&before, life, second, resource, owner) {
                    true => Reply::Published,
                    false => reply,
                }
            }
            (Mutant::EmptyNodesVote, Request::Acquire { .. } | Request::Publish { .. })
                if reply == Reply::NotAdmitted =>
            {
                let nonce = Nonce(2000 + u128::from(life));
                again(&Request::Prepare { nonce, from: None });
                again(&activate(nonce, 1));
                again(request)
            }
            (Mutant::NoReserve, Request::Reserve { memory: None, .. })
            | (Mutant::StartsWhileRemembered, Request::Reserve { memory: Some(_), .. }) => {
                *store = before;
                reply
            }
            // Nobody counts in another era here: see `World::rejoin` for the counts.
            (Mutant::NoNewEra, Request::Activate { nonce, .. }) => {
                *store = before;
                ask(store, life, second, &activate(nonce, 1))
            }
            (Mutant::ActivateAnyMemory, Request::Activate { nonce, era, .. }) if reply == Reply::Forgotten => {
                match again(&Request::Prepare { nonce, from: None }) {
                    Reply::Prepared(now) => again(&activate(now.state.nonce, era)),
                    _ => reply,
                }
            }
            (Mutant::ActivateDropsAlways, Request::Activate { nonce, era, .. })
                if look(&before, life, second).admitted && reply == Reply::Activated =>
            {
                store.forget();
                ask(store, life, second, &Request::Prepare { nonce, from: None });
                ask(store, life, second, &activate(nonce, era))
            }
            (Mutant::SharedIsNotCounted, Request::Acquire { mode: Mode::Shared, resource, owner, ttl }) => {
                let Some(token) = count_of(&before, life) else { return reply };
                let renew = Request::Renew { mode: Mode::Shared, resource, owner, token, ttl };
                *store = before;
                ask(store, life, second, &renew);
                ask(store, life, second, request)
            }
            (Mutant::SharedHealsBelowToken, Request::Renew { mode: Mode::Shared, resource, owner, ttl, .. })
                if reply == Reply::Renewed =>
            {
                let Some(token) = count_of(&before, life) else { return reply };
                let renew = Request::Renew { mode: Mode::Shared, resource, owner, token, ttl };
                *store = before;
                ask(store, life, second, &renew)
            }
            _ => reply,
        }
    }

    /// A grant as the client takes it, `chosen` being its token if it has chosen.
    pub fn grant(self, chosen: Option<Token>, reply: Reply) -> Reply {
        match (self, reply, chosen) {
            (Mutant::LateGrantsCount, Reply::Granted { stamp, nonce, crowded }, Some(chosen))
                if token_of(stamp) > chosen =>
            {
                Reply::Granted { stamp: chosen.into(), nonce, crowded }
            }
            (_, reply, _) => reply,
        }
    }

    /// An answer as a re-admission takes it.
    pub fn readmission(self, phase: u8, reply: Reply) -> Reply {
        match (self, reply) {
            // The start would miss its promise, which is left out as well.
            (Mutant::StartsWhileRemembered, Reply::Prepared(mut prepared)) if phase > STARTS => {
                if phase == START_CONFIRM {
                    prepared.state.reserved = u64::MAX;
                }
                Reply::Prepared(Prepared { admitted: false, ..prepared })
            }
            (Mutant::NoStartPromise, Reply::Prepared(mut prepared)) if phase == START_CONFIRM => {
                prepared.state.reserved = u64::MAX;
                Reply::Prepared(prepared)
            }
            // What is read before the era is chosen; the promise is still looked at.
            (Mutant::NobodyIsRead, Reply::State(state)) if phase == READ => {
                Reply::State(NodeState { era: 0, reserved: 0, ..state })
            }
            // It would be missed when the promise is confirmed.
            (Mutant::NoReserve, Reply::State(state)) if phase == CONFIRM => {
                Reply::State(NodeState { reserved: u64::MAX, ..state })
            }
            (Mutant::NoConfirm, Reply::Reserved { .. }) => Reply::Reserved { nonce: Nonce(0) },
            (Mutant::NoConfirm, _) if phase == CONFIRM => {
                let (nonce, longest) = Default::default();
                Reply::State(NodeState { nonce: Nonce(nonce), era: 0, reserved: u64::MAX, longest })
            }
            (_, reply) => reply,
        }
    }

    /// A request to renew as the client sends it.
    pub fn renewal(self, request: Request) -> Request {
        match (self, request) {
            (Mutant::HealsOverCounts, Request::Renew { mode: Mode::Exclusive, resource, owner, ttl, .. }) => {
                Request::Renew { mode: Mode::Exclusive, resource, owner, ttl, token: Token::MAX }
            }
            (_, request) => request,
        }
    }
}

fn look(store: &Store, life: u8, second: u8) -> Prepared {
    match ask(&mut store.clone(), life, second, &Request::Prepare { nonce: Nonce(0), from: None }) {
        Reply::Prepared(prepared) => prepared,
        reply => panic!("{reply:?}"),
    }
}

/// The count that a node shows, as a token.
fn count_of(store: &Store, life: u8) -> Option<Token> {
    let stamp = count_once(&mut store.clone(), life)?;
    Stamp { count: stamp.count.checked_sub(1).filter(|count| *count > 0)?, ..stamp }.token()
}

fn holds(store: &Store, life: u8, second: u8, resource: Resource, owner: Owner) -> bool {
    let release = Request::Release { resource, owner };
    ask(&mut store.clone(), life, second, &release) == Reply::Released
}
