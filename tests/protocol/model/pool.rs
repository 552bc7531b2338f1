//! Values, each with a number: a state of the model is a few numbers, and the protocol answers the same input once.

use std::hash::Hash;
use std::sync::RwLock;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// The number of a value; zero is none.
pub type Id = u32;

/// Every value seen, by number.
pub struct Pool<T>(RwLock<IndexSet<T, FxBuildHasher>>);

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(RwLock::default())
    }
}

impl<T: Clone + Eq + Hash> Pool<T> {
    pub fn id(&self, value: &T) -> Id {
        let known = self.0.read().unwrap().get_index_of(value);
        let index = known.unwrap_or_else(|| self.0.write().unwrap().insert_full(value.clone()).0);
        Id::try_from(index + 1).unwrap()
    }

    pub fn get(&self, id: Id) -> T {
        self.0.read().unwrap()[id as usize - 1].clone()
    }
}

/// A pure function's results. The default hash would be most of the run time.
pub struct Memo<K, V>(RwLock<FxHashMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo(RwLock::default())
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Memo<K, V> {
    pub fn get(&self, key: K, compute: impl FnOnce() -> V) -> V {
        if let Some(value) = self.0.read().unwrap().get(&key) {
            return *value;
        }
        let value = compute();
        self.0.write().unwrap().insert(key, value);
        value
    }
}
