use crate::Resource;

/// The names under which a node keeps its part, all in one hash slot.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    pub(super) memory: String,
    pub(super) quarantine: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Keys {
        let prefix = format!("{{{namespace}}}");
        let key = |name: &str| format!("{prefix}:{name}");
        Keys { memory: key("memory"), quarantine: key("quarantine"), prefix }
    }

    pub(super) fn lock(&self, resource: &Resource) -> String {
        format!("{}:lock:{resource}", self.prefix)
    }
}
