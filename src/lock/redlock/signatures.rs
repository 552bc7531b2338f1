use std::collections::BTreeMap;
use std::sync::Arc;

use fencing_protocol::{Owner, Reply, Request, Resource, Store};

/// The names under which the locks of a node in this process are held.
#[derive(Default)]
pub(super) struct Signatures(BTreeMap<Owner, (Resource, Arc<str>)>);

impl Signatures {
    /// Notes the name under which a lock was granted or renewed, and returns the holder of one that was not.
    pub(super) fn sign(&mut self, store: &Store, name: &Arc<str>, request: &Request, reply: &mut Reply) {
        let (Request::Acquire { resource, owner, .. }
        | Request::Renew { resource, owner, .. }
        | Request::Resume { resource, owner, .. }) = request
        else {
            return;
        };
        match reply {
            Reply::Granted { .. } | Reply::Renewed => {
                // Now and then those of locks that are over are dropped.
                if self.0.len().is_power_of_two() && !self.0.contains_key(owner) {
                    self.0.retain(|owner, (resource, _)| store.is_owner(resource, *owner));
                }
                self.0.insert(*owner, (resource.clone(), Arc::clone(name)));
            }
            Reply::Held { holder, .. } => {
                *holder = store.owner(resource).map(|owner| self.shown(owner));
            }
            _ => {}
        }
    }

    /// Returns the value of the lock on a Redis node.
    fn shown(&self, owner: Owner) -> Arc<str> {
        let name = self.0.get(&owner);
        name.map_or_else(|| owner.to_string(), |(_, name)| format!("{owner} {name}")).into()
    }
}
