use std::marker::PhantomData;
use std::time::Duration;

use super::settings::{Settings, settings_setters};

/// The budget where none is set: this, or a part of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// Builds a lock service on an engine that a URL names: etcd or ZooKeeper.
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct EngineBuilder<B> {
    // It may have a password.
    #[debug(skip)]
    pub(super) url: String,
    pub(super) settings: Settings,
    backend: PhantomData<fn() -> B>,
}

impl<B> EngineBuilder<B> {
    /// Where none is set, the budget is at most this `part` of the TTL.
    pub(super) fn over(url: String, part: u32) -> EngineBuilder<B> {
        let settings = Settings::new("budget", (BUDGET, part));
        EngineBuilder { url, settings, backend: PhantomData }
    }

    /// Takes these settings in place of its own. The defaults of the engine stay.
    pub(super) fn with(mut self, settings: &Settings) -> EngineBuilder<B> {
        self.settings = settings.with_defaults_of(&self.settings);
        self
    }

    settings_setters!(namespace, budget);
}
