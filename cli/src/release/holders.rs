//! The holders of a lock on nodes.

use std::collections::BTreeMap;

use fencing::Token;
use fencing::lock::Holder;
use fencing::lock::redlock::NodeView;

use crate::voters::Turnout;

/// Tokens of an era.
const COUNTS: u64 = 1_000_000;

/// The holder of a lock on nodes, or all who share it.
pub(super) struct LockHolders {
    /// The value of the lock on the nodes, and its holder: more than one where they share it.
    pub(super) parts: BTreeMap<Vec<u8>, Option<Holder>>,
    /// The token, if a majority has the lock: that of a majority, or else the largest. `None` on fewer nodes: the
    /// next holder may get the same token.
    token: Option<Token>,
    nodes: usize,
    /// Whether a majority may have the lock: nodes that have not answered, or have forgotten locks, may have had it.
    pub(super) uncertain: bool,
}

impl LockHolders {
    /// Puts together who holds the lock. On less than a majority it is an attempt, or what is left of a lease: it
    /// counts only where no client has a majority.
    pub(super) fn of(views: &[NodeView], turnout: Turnout) -> Vec<LockHolders> {
        let mut all: BTreeMap<Option<&[u8]>, Vec<&NodeView>> = BTreeMap::new();
        for view in views {
            let Some(first) = view.locks.first() else { continue };
            all.entry((!first.shared).then_some(&first.value)).or_default().push(view);
        }
        let any = all.values().any(|views| views.len() >= turnout.needed);
        all.retain(|_, views| !any || views.len() >= turnout.needed);
        let holders = all.into_values().map(|views| {
            let mut known: Vec<Token> = views.iter().filter_map(|view| view.known).collect();
            let token = turnout.agreed(&mut known).or(known.last().copied()).filter(|_| any);
            let locks = views.iter().flat_map(|view| &view.locks);
            let parts = locks.map(|lock| (lock.value.clone(), lock.holder.clone())).collect();
            let nodes = views.len();
            let uncertain = !any && turnout.may_be_held(nodes);
            LockHolders { parts, token, nodes, uncertain }
        });
        holders.collect()
    }

    /// Returns whether the lock may have this token. Forgotten tokens are older than all known ones.
    pub(super) fn has(&self, token: Token) -> bool {
        if let Some(own) = self.own_token() { token == own } else { self.token.is_some_and(|era| token < era) }
    }

    /// The token, unless it is from before the present era: counts start again with each.
    pub(super) fn own_token(&self) -> Option<Token> {
        self.token.filter(|token| token.get() % COUNTS > 0)
    }

    pub(super) fn describe(all: &[LockHolders], turnout: Turnout) -> String {
        let Turnout { remember, size, .. } = turnout;
        let one = |holders: &LockHolders| {
            let (named, nodes) = (named(holders.parts.values().map(Option::as_ref)), holders.nodes);
            match holders.token {
                Some(era) if holders.own_token().is_none() => {
                    format!("{named}, with a token below {era}, from before the present era")
                }
                Some(token) => format!("{named}, token {token}"),
                None if holders.uncertain => {
                    format!("perhaps {named} (seen on {nodes} of {remember} nodes that remember, of {size})")
                }
                None => format!("{named} (on {nodes} of {size} nodes: an unfinished attempt, or an ending lease)"),
            }
        };
        all.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

pub(super) fn named<'a>(holders: impl Iterator<Item = Option<&'a Holder>>) -> String {
    let one = |holder: Option<&Holder>| holder.map_or_else(|| "an unnamed holder".to_owned(), Holder::to_string);
    holders.map(one).collect::<Vec<_>>().join(", ")
}
