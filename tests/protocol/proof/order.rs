//! What is to be proved: order. It follows from the invariant at any moment.

pub const ORDER: &str = "
# No token is won twice, unless both share the lock.
no-token-twice | a Attempt, b Attempt
    (=> (and (won a) (won b) (= (token-era a) (token-era b))
             (= (token-count a) (token-count b)))
        (or (= a b) (and (shared a) (shared b))))
    because win-is-sound choice-is-sound winners-published grant-is-sound raise-is-sound
            memories-in-order grant-is-past raise-is-past grant-above-past raise-above-past
            grants-differ raise-and-grant-differ raises-differ sharers-are-noted no-token-of-both
# Who began after another had won, and wins, has the larger token. If both share the lock, it is
# not the smaller one.
later-is-larger | a Attempt, b Attempt
    (=> (and (before a b) (won b))
        (or (below (token-era a) (token-count a) (token-era b) (token-count b))
            (and (shared a) (shared b) (= (token-era a) (token-era b))
                 (= (token-count a) (token-count b)))))
    because win-is-sound choice-is-sound choice-above-counted before-is-sound later-granted-more
            fleets-in-order after-g-is-belated belated-after-moment sealers-of-f sealers-grant-no-f
";
