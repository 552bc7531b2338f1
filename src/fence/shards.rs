use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

use fencing_protocol::{NonEmpty, Resource};
use parking_lot::Mutex;

/// One value for each resource, in many maps: requests for different resources seldom wait for each
/// other, even while a map grows.
pub(super) struct Shards<V> {
    shards: NonEmpty<Arc<Shard<V>>>,
    hasher: RandomState,
}

pub(super) type Shard<V> = Mutex<HashMap<Key, V, BuildHasherDefault<KeyHasher>>>;

/// A resource and its hash, which is worked out once for each request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    hash: u64,
    pub(super) resource: Resource,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Uses the hash of the key as it is.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<V> Shards<V> {
    pub(super) fn new(count: u16) -> Shards<V> {
        let mut shards = NonEmpty::new(Arc::default());
        shards.extend((1..count).map(|_| Arc::default()));
        Shards { shards, hasher: RandomState::new() }
    }

    /// Returns the map of a resource, and the key there.
    pub(super) fn of(&self, resource: &Resource) -> (&Arc<Shard<V>>, Key) {
        let hash = self.hasher.hash_one(resource);
        // Other bits than those by which a map finds its places.
        let number = usize::from((hash >> 32) as u16) % self.shards.len();
        let shard = self.shards.get(number).unwrap_or(self.shards.first());
        (shard, Key { hash, resource: resource.clone() })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Shard<V>>> {
        self.shards.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_spread_over_all_maps_and_found_again() {
        let shards = Shards::new(256);
        let names: Vec<_> =
            (0..25_600).map(|number| Resource::new(format!("files/{number}")).unwrap()).collect();
        for (number, name) in names.iter().enumerate() {
            let (shard, key) = shards.of(name);
            assert_eq!(shard.lock().insert(key, number), None);
        }
        for (number, name) in names.iter().enumerate() {
            let (shard, key) = shards.of(name);
            assert_eq!(shard.lock().get(&key), Some(&number));
        }
        let sizes: Vec<_> = shards.all().map(|shard| shard.lock().len()).collect();
        assert_eq!(sizes.len(), 256);
        assert!(sizes.iter().all(|size| (40..180).contains(size)), "{sizes:?}");
    }
}
