use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::line::LineListener;
use super::sessions::Sessions;
use crate::lock::backend::LockBackend;
use crate::lock::service::LockService;
use crate::lock::settings::{BuildError, Settings, settings_setters};
use crate::lock::wait::release_notifications::{ReleaseNotifications, Source};
use crate::lock::wait::subscriptions::Notifies;

/// The budget where none is set: this, or a part of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// Builds a lock service on an engine that a URL names: etcd or ZooKeeper.
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct EngineBuilder<B> {
    // It may have a password.
    #[debug(skip)]
    url: String,
    settings: Settings,
    backend: PhantomData<fn() -> B>,
}

impl<B> EngineBuilder<B> {
    /// Where none is set, the budget is at most this `part` of the TTL.
    pub(in crate::lock) fn over(url: String, part: u32, least_ttl: Duration) -> EngineBuilder<B> {
        let mut settings = Settings::new("budget", (BUDGET, part));
        settings.defaults.least_ttl = least_ttl;
        EngineBuilder { url, settings, backend: PhantomData }
    }

    /// Takes these settings in place of its own. The defaults of the engine stay.
    pub(in crate::lock) fn with(mut self, settings: &Settings) -> EngineBuilder<B> {
        self.settings = Settings { defaults: self.settings.defaults, ..settings.clone() };
        self
    }

    settings_setters!(namespace, budget);
}

impl<E: Engine> EngineBuilder<Arc<Sessions<E>>>
where
    Arc<Sessions<E>>: LockBackend,
{
    /// Builds the lock service. It connects with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value does not fit, and why.
    pub fn build(self) -> Result<LockService<Arc<Sessions<E>>>, BuildError> {
        let (engine, settings) = (self.engine()?, self.settings.checked()?);
        let (name, outstanding) = (engine.to_string(), engine.outstanding().clone());
        let sessions = Arc::new(Sessions::new(engine));
        let opened = (Arc::clone(&sessions), settings.clone());
        // The lines of waiting clients are open on a session of this client.
        let source = Source::new(&name, move || {
            let (sessions, settings) = opened.clone();
            LineListener::open(async move { sessions.get(&settings).await })
        });
        let notifications = Arc::new(ReleaseNotifications::new(1, Notifies::Everyone, vec![source]));
        Ok(LockService::over(sessions, notifications, outstanding, settings))
    }

    pub(in crate::lock) fn engine(&self) -> Result<E, BuildError> {
        E::new(&self.url, &self.settings)
    }
}
