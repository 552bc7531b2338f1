use super::ConnectOptions;
use crate::lock::url_builder::UrlBuilder;

impl ConnectOptions {
    /// Gives these options to the builder of an engine, whose other defaults stay.
    pub(super) fn of<B>(&self, builder: fn(String) -> UrlBuilder<B>) -> UrlBuilder<B> {
        let mut builder = builder(self.url.clone());
        builder.settings = self.settings.with_defaults_of(&builder.settings);
        builder.namespace = self.namespace.clone().unwrap_or(builder.namespace);
        builder
    }
}
