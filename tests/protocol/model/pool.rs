//! Values with a number for each: a state of the model is a few numbers, and what the
//! protocol answers to the same input is computed once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::RwLock;

/// The number of a value; zero is none.
pub type Id = u32;

/// A multiplicative hash. The default one is most of the run time otherwise.
#[derive(Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Every value seen, by number.
pub struct Pool<T> {
    seen: RwLock<(HashMap<T, Id>, Vec<T>)>,
}

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool { seen: RwLock::new((HashMap::new(), Vec::new())) }
    }
}

impl<T: Clone + Eq + Hash> Pool<T> {
    pub fn id(&self, value: &T) -> Id {
        if let Some(id) = self.seen.read().unwrap().0.get(value) {
            return *id;
        }
        let mut seen = self.seen.write().unwrap();
        if let Some(id) = seen.0.get(value) {
            return *id;
        }
        let id = Id::try_from(seen.1.len() + 1).unwrap();
        seen.1.push(value.clone());
        seen.0.insert(value.clone(), id);
        id
    }

    pub fn get(&self, id: Id) -> T {
        self.seen.read().unwrap().1[id as usize - 1].clone()
    }
}

/// A pure function's results.
pub struct Memo<K, V> {
    known: RwLock<QuickMap<K, V>>,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo { known: RwLock::new(QuickMap::default()) }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Memo<K, V> {
    pub fn get(&self, key: K, compute: impl FnOnce() -> V) -> V {
        if let Some(value) = self.known.read().unwrap().get(&key) {
            return *value;
        }
        let value = compute();
        self.known.write().unwrap().insert(key, value);
        value
    }
}
