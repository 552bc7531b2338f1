use std::collections::BTreeMap;

use fencing::lock::redlock::{Forced, NodeView};
use fencing::lock::{Fault, Holder};
use fencing::{Resource, Token};

use super::{HOLDER_GOES_ON, LOOK, gone};
use crate::exit::Failure;
use crate::say;
use crate::voters::{Turnout, Voters};

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
    /// Collects the holders of the lock. A holder on less than a majority is an unfinished attempt or an ending lease,
    /// and counts only if no client has a majority.
    pub(super) fn of(views: &[NodeView], turnout: Turnout) -> Vec<LockHolders> {
        let mut all: BTreeMap<Option<&[u8]>, Vec<&NodeView>> = BTreeMap::new();
        for view in views {
            let Some(first) = view.locks.first() else { continue };
            all.entry((!first.shared).then_some(&first.value)).or_default().push(view);
        }
        let any = all.values().any(|views| views.len() >= turnout.needed);
        all.retain(|_, views| !any || views.len() >= turnout.needed);
        let holders_of = |views: Vec<&NodeView>| {
            let mut known: Vec<Token> = views.iter().filter_map(|view| view.known).collect();
            let token = turnout.agreed(&mut known).or(known.last().copied()).filter(|_| any);
            let locks = views.iter().flat_map(|view| &view.locks);
            let parts = locks.map(|lock| (lock.value.clone(), lock.holder.clone())).collect();
            let nodes = views.len();
            let uncertain = !any && turnout.may_be_held(nodes);
            LockHolders { parts, token, nodes, uncertain }
        };
        all.into_values().map(holders_of).collect()
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
        say::listed(all.iter().map(one), "; ")
    }
}

pub(super) fn named<'a>(holders: impl Iterator<Item = Option<&'a Holder>>) -> String {
    let one = |holder: Option<&Holder>| holder.map_or_else(|| "an unnamed holder".to_owned(), Holder::to_string);
    say::listed(holders.map(one), ", ")
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct NodeAnswers {
    taken: usize,
    free: usize,
    /// Number of nodes on which another client holds the lock, and keeps it.
    others: usize,
    /// Number of nodes that have not answered: they may have done it.
    silent: usize,
}

impl NodeAnswers {
    /// Counts them, and says which nodes have not released it. The first `unasked` of those at fault were not asked.
    pub(super) fn of(voters: &Voters, forced: &[Forced], unasked: usize) -> NodeAnswers {
        let mut answers = NodeAnswers::default();
        for (index, (node, fault)) in voters.faults.iter().enumerate() {
            say::error(match fault {
                Fault::Exhausted => format!(
                    "{node}: not released: its count has run out, so it could not refuse the holder's renewal; the \
                     lock is free when it expires"
                ),
                Fault::NotAdmitted | Fault::OtherFleet { .. } | Fault::Moved { .. } => {
                    format!("{node}: not released: {fault}")
                }
                _ if index < unasked => format!("{node}: not released: {fault}"),
                _ => {
                    answers.silent += 1;
                    format!("{node}: perhaps released; it did not answer: {fault}")
                }
            });
        }
        for (voter, forced) in voters.nodes.iter().zip(forced) {
            match forced {
                Forced::Taken(_) => answers.taken += 1,
                Forced::Free => answers.free += 1,
                _ => {
                    answers.others += 1;
                    let node = &voter.node;
                    say::error(format_args!("{node}: another client holds the lock there, and keeps it"));
                }
            }
        }
        answers
    }

    /// Says whether the lock, `held` by these clients, was released.
    pub(super) fn outcome(self, resource: &Resource, held: &str, turnout: Turnout) -> Result<String, Failure> {
        let (NodeAnswers { taken, free, others, silent }, Turnout { needed, size, .. }) = (self, turnout);
        // They refuse the holder's renewal now.
        let noted = taken + free;
        Err(Failure::unavailable(match taken {
            _ if others >= needed => return Err(gone(resource, held, taken)),
            // No node that answered had it any more.
            0 if silent > 0 => format!(
                "it is not known whether {resource}, held by {held}, was released: {silent} of {size} nodes did not \
                 answer. {LOOK}"
            ),
            0 if free + others >= needed => return Err(gone(resource, held, taken)),
            1.. if noted >= needed => {
                return Ok(format!(
                    "released {resource}, held by {held}, on {taken} of {size} nodes; {noted} of {size} will refuse \
                     the holder's renewal"
                ));
            }
            _ => {
                let next = if others > 0 { LOOK } else { "Run this again." };
                format!(
                    "{resource}, held by {held}, was released on {taken} of {size} nodes, but only {noted} of them \
                     will refuse the holder's renewal: not a majority. Others may get the lock now, or the holder may \
                     keep it. {next} {HOLDER_GOES_ON}"
                )
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of what is said.
    const RELEASED: &str = "released r, held by h, on ";
    const GONE: &str = "r is not held by h any more: nothing was released";
    const OTHERS: &str = "another client now holds r, and keeps it; h still had it on ";
    const UNKNOWN: &str = "it is not known whether r, held by h, was released: ";
    const TOO_FEW: &str = "r, held by h, was released on ";

    #[test]
    fn three_nodes_decide() {
        let (resource, turnout) =
            (Resource::new("r").unwrap(), Turnout { answered: 5, remember: 5, needed: 3, size: 5 });
        for ([taken, free, others, silent], said) in [
            // They have released it, or refuse the holder.
            ([5, 0, 0, 0], RELEASED),
            ([1, 2, 0, 2], RELEASED),
            ([2, 1, 2, 0], RELEASED),
            ([2, 0, 0, 3], TOO_FEW),
            ([2, 0, 2, 1], TOO_FEW),
            // Another client keeps it. What was left of an old lease may be taken from beside it.
            ([0, 0, 5, 0], GONE),
            ([2, 0, 3, 0], OTHERS),
            ([0, 0, 3, 2], GONE),
            // Those that have not answered may have released it.
            ([0, 5, 0, 0], GONE),
            ([0, 2, 2, 0], GONE),
            ([0, 3, 0, 2], UNKNOWN),
            ([0, 0, 0, 5], UNKNOWN),
            // All have refused.
            ([0, 0, 0, 0], TOO_FEW),
        ] {
            let answers = NodeAnswers { taken, free, others, silent };
            let outcome = answers.outcome(&resource, "h", turnout);
            assert_eq!(outcome.is_ok(), said == RELEASED, "{answers:?}");
            let text = outcome.unwrap_or_else(|Failure(_, why)| why);
            assert!(text.starts_with(said), "{answers:?}: {text}");
        }
    }
}
