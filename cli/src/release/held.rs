//! Who holds a lock on nodes.

use std::collections::BTreeMap;

use fencing::Token;
use fencing::lock::Holder;
use fencing::lock::redlock::NodeView;

/// How many tokens an era has.
const COUNTS: u64 = 1_000_000;

/// One who holds a lock on nodes, or all who share it.
#[derive(Default)]
pub(super) struct Held {
    pub(super) values: Vec<Vec<u8>>,
    holders: Vec<Option<Holder>>,
    /// Its token, if it stands on a majority: the one that a majority knows of there, or else the largest. What stands on
    /// less has none yet, or none any more: whoever comes next may get the same.
    token: Option<Token>,
    known: Vec<Token>,
    nodes: usize,
    /// Whether it may stand on a majority: nodes that have not answered, or have forgotten locks, may have had it.
    pub(super) perhaps: bool,
}

impl Held {
    /// Puts together who holds it. What stands on less than a majority is an attempt, or what is left of a lease: it
    /// counts only where nobody has a majority.
    /// `may_be_held` says whether a lock that stands on so many nodes may stand on a majority.
    pub(super) fn of(
        views: &[NodeView],
        needed: usize,
        may_be_held: impl Fn(usize) -> bool,
    ) -> Vec<Held> {
        let mut all: BTreeMap<Option<&[u8]>, Held> = BTreeMap::new();
        for view in views {
            let shared = view.locks.iter().any(|lock| lock.shared);
            for (place, lock) in view.locks.iter().enumerate() {
                let none = || Held::default();
                let held = all.entry((!shared).then_some(&lock.value)).or_insert_with(none);
                if place == 0 {
                    held.nodes += 1;
                    held.known.extend(view.known);
                }
                if !held.values.contains(&lock.value) {
                    held.values.push(lock.value.clone());
                    held.holders.push(lock.holder.clone());
                }
            }
        }
        let any = all.values().any(|held| held.nodes >= needed);
        let mut held: Vec<Held> = all.into_values().collect();
        held.retain(|held| !any || held.nodes >= needed);
        for held in held.iter_mut().filter(|_| any) {
            held.known.sort_unstable();
            let agreed = held.known.chunk_by(Token::eq).find(|same| same.len() >= needed);
            held.token = agreed.unwrap_or(&held.known).last().copied();
        }
        held.iter_mut().for_each(|held| held.perhaps = !any && may_be_held(held.nodes));
        held
    }

    /// Returns whether it may have this token. What nodes know of no more is older than all that they do know of.
    pub(super) fn has(&self, token: Token) -> bool {
        match self.own_token() {
            Some(own) => token == own,
            None => self.token.is_some_and(|era| token < era),
        }
    }

    /// Its token, unless that is from before the present era: counts begin anew with each.
    pub(super) fn own_token(&self) -> Option<Token> {
        self.token.filter(|token| token.get() % COUNTS > 0)
    }

    pub(super) fn told(held: &[Held], remember: usize, size: usize) -> String {
        let one = |held: &Held| {
            let named = named(held.holders.iter().map(Option::as_ref));
            match held.token {
                Some(era) if held.own_token().is_none() => {
                    format!("{named}, with a token below {era}, from before the present era")
                }
                Some(token) => format!("{named}, token {token}"),
                None if held.perhaps => format!(
                    "perhaps {named} (seen on {} of {remember} nodes that remember, of {size})",
                    held.nodes
                ),
                None => format!(
                    "{named} (on {} of {size} nodes: an attempt, or what is left of a lease)",
                    held.nodes
                ),
            }
        };
        held.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

pub(super) fn named<'a>(holders: impl Iterator<Item = Option<&'a Holder>>) -> String {
    let one = |holder: Option<&Holder>| {
        holder.map_or_else(|| "somebody without a name".to_owned(), Holder::to_string)
    };
    holders.map(one).collect::<Vec<_>>().join(", ")
}
