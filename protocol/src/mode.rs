/// How a lock is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// By one owner.
    #[default]
    Exclusive,
    /// Together with others that share it.
    Shared,
}
