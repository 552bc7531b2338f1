use std::collections::BTreeMap;
use std::sync::Arc;

use fencing_protocol::{Owner, Reply, Request, Resource, Store};

use crate::time::Time;

/// Under which names the locks of a node in this process are held.
#[derive(Default)]
pub(super) struct Signatures(BTreeMap<Resource, BTreeMap<Owner, Arc<str>>>);

impl Signatures {
    /// Notes the name under which a lock was granted or renewed, and returns the holder of one that was not.
    pub(super) fn sign(
        &mut self,
        (store, now): (&Store, Time),
        name: Option<&Arc<str>>,
        request: &Request,
        reply: &mut Reply,
    ) {
        if let (Request::Several(requests), Reply::Several(replies)) = (request, &mut *reply) {
            for (request, reply) in requests.iter().zip(replies) {
                self.sign((store, now), name, request, reply);
            }
            return;
        }
        let (Request::Acquire { resource, owner, .. }
        | Request::Share { resource, owner, .. }
        | Request::Renew { resource, owner, .. }
        | Request::RenewShare { resource, owner, .. }) = request
        else {
            return;
        };
        match reply {
            Reply::Granted { .. } | Reply::Renewed => {
                if let Some(name) = name {
                    self.note((store, now), resource, *owner, name);
                }
            }
            Reply::Held { holder, .. } | Reply::Shared { holder, .. } => {
                *holder = store.owner(resource).map(|owner| self.shown(resource, owner));
            }
            _ => {}
        }
    }

    fn note(
        &mut self,
        (store, now): (&Store, Time),
        resource: &Resource,
        owner: Owner,
        name: &Arc<str>,
    ) {
        // Now and then those of locks that are over are dropped.
        if self.0.len().is_power_of_two() && !self.0.contains_key(resource) {
            self.0.retain(|resource, _| store.is_locked(resource, now));
        }
        let names = self.0.entry(resource.clone()).or_default();
        names.retain(|owner, _| store.is_owner(resource, *owner));
        names.insert(owner, Arc::clone(name));
    }

    /// Returns the value of the lock on a Redis node.
    fn shown(&self, resource: &Resource, owner: Owner) -> Arc<str> {
        let name = self.0.get(resource).and_then(|names| names.get(&owner));
        name.map_or_else(|| owner.to_string(), |name| format!("{owner} {name}")).into()
    }
}
