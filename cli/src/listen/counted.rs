/// A value that a gauge counts until it is dropped.
pub(crate) struct Counted<T> {
    gauge: &'static str,
    _counted: T,
}

impl<T> Counted<T> {
    pub(crate) fn new(gauge: &'static str, counted: T) -> Counted<T> {
        metrics::gauge!(gauge).increment(1.0);
        Counted { gauge, _counted: counted }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        metrics::gauge!(self.gauge).decrement(1.0);
    }
}
