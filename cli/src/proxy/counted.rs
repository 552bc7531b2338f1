/// A value that a gauge counts until it is dropped.
pub(super) struct Counted<T> {
    gauge: &'static str,
    _counted: T,
}

impl<T> Counted<T> {
    pub(super) fn new(gauge: &'static str, counted: T) -> Counted<T> {
        metrics::gauge!(gauge).increment(1.0);
        Counted { gauge, _counted: counted }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        metrics::gauge!(self.gauge).decrement(1.0);
    }
}

/// Counts a request that did not reach the fence, or the service behind it.
pub(super) fn refused(cause: &'static str) {
    metrics::counter!("fencing_proxy_refused_total", "cause" => cause).increment(1);
}
