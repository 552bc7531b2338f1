//! How often what happened.

#[derive(Default, Debug, Clone, Copy)]
pub struct Tally {
    pub leases: u64,
    pub moved_leases: u64,
    pub losses: u64,
    pub back: u64,
    pub collected: u64,
    pub repeats: u64,
    pub renewals: u64,
    pub moves: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.leases += other.leases;
        self.moved_leases += other.moved_leases;
        self.losses += other.losses;
        self.back += other.back;
        self.collected += other.collected;
        self.repeats += other.repeats;
        self.renewals += other.renewals;
        self.moves += other.moves;
    }

    /// A walk in which little happened shows nothing.
    pub fn enough(&self, steps: u64, moved: bool) {
        let Tally { leases, losses, back, collected, repeats, renewals, .. } = *self;
        let least = [leases, losses, back, repeats, renewals].into_iter().min().unwrap_or(0);
        assert!(least >= steps / 2_000, "too little happened: {self:?}");
        let moves = !moved || self.moves > 0 && self.moved_leases > 0;
        assert!(collected > 0 && moves, "too little happened: {self:?}");
    }
}
