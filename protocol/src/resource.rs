//! The name of a thing that you lock and fence.

use std::borrow::Borrow;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The validated name of a resource, such as `invoice/42`.
///
/// A name has 1 to 255 bytes of UTF-8, no control characters (nor characters that break or
/// reorder a line of text), and no white space at either end. Two names mean the same
/// resource exactly if their bytes are equal. A clone shares the name's memory.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Resource(Arc<str>);

/// Why a text is not a valid [`Resource`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a resource name has 1 to 255 bytes, no control characters, and no white space at either end: {defect}")]
pub struct ResourceError {
    defect: Defect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Defect {
    #[error("this one is empty")]
    Empty,
    #[error("this one has {0} bytes")]
    TooLong(usize),
    #[error("this one contains {0:?}")]
    Control(char),
    #[error("this one begins or ends with white space")]
    Space,
}

impl Resource {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Makes the resource with this name.
    ///
    /// # Errors
    /// Returns a [`ResourceError`] that says which part of the rule the name breaks.
    pub fn new(name: impl AsRef<str>) -> Result<Resource, ResourceError> {
        let name = name.as_ref();
        let defect = if name.is_empty() {
            Defect::Empty
        } else if name.len() > Resource::MAX_BYTES {
            Defect::TooLong(name.len())
        } else if name.bytes().all(|byte| byte.is_ascii_graphic()) {
            // Most names: nothing in them can be wrong.
            return Ok(Resource(name.into()));
        } else if let Some(found) = name.chars().find(|&found| is_unsafe(found)) {
            Defect::Control(found)
        } else if name.trim() != name {
            Defect::Space
        } else {
            return Ok(Resource(name.into()));
        };
        Err(ResourceError { defect })
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Finds control characters, Unicode line separators and bidirectional controls.
fn is_unsafe(found: char) -> bool {
    found.is_control()
        || matches!(found, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}')
        || matches!(found, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl AsRef<str> for Resource {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// For maps that are asked with a `&str`: a resource is hashed, compared and ordered as its name.
impl Borrow<str> for Resource {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Resource> for String {
    fn from(resource: Resource) -> String {
        resource.as_str().to_owned()
    }
}

impl FromStr for Resource {
    type Err = ResourceError;

    fn from_str(name: &str) -> Result<Resource, ResourceError> {
        Resource::new(name)
    }
}

impl TryFrom<&str> for Resource {
    type Error = ResourceError;

    fn try_from(name: &str) -> Result<Resource, ResourceError> {
        Resource::new(name)
    }
}

impl TryFrom<String> for Resource {
    type Error = ResourceError;

    fn try_from(name: String) -> Result<Resource, ResourceError> {
        Resource::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_kept() {
        assert!(Resource::new("invoice/42").is_ok());
        assert!(Resource::new("ä b").is_ok());
        assert!(Resource::new("x".repeat(255)).is_ok());
        for bad in ["", " a", "a ", "a\u{a0}", "a\nb", "a\0", "a\u{202e}b", "a\u{2028}b"] {
            assert!(Resource::new(bad).is_err(), "{bad:?}");
        }
        assert!(Resource::new("ä".repeat(128)).is_err());
    }

    #[test]
    fn the_error_says_the_rule_and_the_breach() {
        let text = Resource::new("a\nb").unwrap_err().to_string();
        assert!(text.contains("1 to 255 bytes") && text.contains(r"'\n'"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_resource_hashes_and_compares_as_its_name_does() {
        use std::hash::BuildHasher;
        let hasher = std::hash::RandomState::new();
        let names = ["R", "r", "r/", "r\u{301}", "\u{155}", "ä", "a b", "42", "9"];
        for a in names {
            let resource = Resource::new(a).unwrap();
            let borrowed: &str = resource.borrow();
            assert_eq!(borrowed, a);
            assert_eq!(hasher.hash_one(&resource), hasher.hash_one(borrowed));
            for b in names {
                let other = Resource::new(b).unwrap();
                assert_eq!(resource == other, a == b, "{a} {b}");
                assert_eq!(resource.cmp(&other), a.cmp(b), "{a} {b}");
            }
            let map = std::collections::HashMap::from([(resource.clone(), 1)]);
            assert_eq!(map.get(a), Some(&1));
            assert_eq!(String::from(resource), a);
        }
    }

    #[test]
    fn json_is_checked() {
        assert_eq!(serde_json::from_str::<Resource>("\"a\\u002fb\"").unwrap().as_str(), "a/b");
        assert!(serde_json::from_str::<Resource>("\"\"").is_err());
    }
}
