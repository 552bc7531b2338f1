use std::collections::BTreeMap;
use std::time::Duration;

use fencing_protocol::{ClientId, Resource};
use tokio::sync::mpsc;

use crate::time::Time;

/// For how long the one who was told of a release is left alone with it.
const HEAD_START: Duration = Duration::from_millis(50);

/// Those who wait at a node in this process, by resource: what `wait.lua` and `leave.lua` do in Redis.
#[derive(Default)]
pub(super) struct WaitingList {
    waiting: BTreeMap<Resource, Vec<Entry>>,
    /// Who was told last, and until when nobody else is to ask.
    told: BTreeMap<Resource, (ClientId, Time)>,
}

/// One who waits.
pub(super) struct Entry {
    pub(super) client: ClientId,
    pub(super) ticket: u64,
    pub(super) since: Time,
    pub(super) told: mpsc::UnboundedSender<(Resource, u64)>,
}

impl WaitingList {
    /// Notes one who waits for a resource, and returns whether the lock is free and nobody else was told.
    pub(super) fn wait(
        &mut self,
        resource: &Resource,
        locked: bool,
        now: Time,
        entry: Entry,
    ) -> bool {
        let told = self.told.get(resource).filter(|(_, until)| now < *until);
        if !locked && told.is_none_or(|(client, _)| *client == entry.client) {
            return true;
        }
        let waiting = self.waiting.entry(resource.clone()).or_default();
        waiting.retain(|other| (other.client, other.ticket) != (entry.client, entry.ticket));
        let place = waiting.partition_point(|other| other.since <= entry.since);
        waiting.insert(place, entry);
        false
    }

    /// Forgets one who waits. If it was told and does not take the lock, the next one is told.
    pub(super) fn leave(
        &mut self,
        resource: &Resource,
        locked: bool,
        now: Time,
        (client, ticket): (ClientId, u64),
    ) {
        let waiting = self.waiting.get_mut(resource);
        let before = waiting.as_ref().map_or(0, |waiting| waiting.len());
        let left = waiting.map_or(0, |waiting| {
            waiting.retain(|other| (other.client, other.ticket) != (client, ticket));
            waiting.len()
        });
        let was_told = self.told.get(resource).is_some_and(|(told, _)| *told == client);
        if before == left && was_told && !locked {
            self.told.remove(resource);
            self.tell(resource, now);
        } else if left == 0 {
            self.waiting.remove(resource);
        }
    }

    /// Tells the one who has waited longest, and returns who that is. One who is gone hears nothing, and
    /// the next one is told.
    pub(super) fn tell(&mut self, resource: &Resource, now: Time) -> Option<ClientId> {
        self.told.retain(|_, (_, until)| now < *until);
        let waiting = self.waiting.get_mut(resource)?;
        let mut told = None;
        while told.is_none() && !waiting.is_empty() {
            let first = waiting.remove(0);
            let heard = first.told.send((resource.clone(), first.ticket)).is_ok();
            told = heard.then_some(first.client);
        }
        if waiting.is_empty() {
            self.waiting.remove(resource);
        }
        let client = told?;
        self.told.insert(resource.clone(), (client, now + HEAD_START));
        Some(client)
    }
}
