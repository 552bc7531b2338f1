//! Those who share a lock, beside those who hold it alone.

pub const FACTS: &str = "
# In the memory that a node has.

# While somebody has a part in the lock, the count is above all that was granted to those who
# hold it alone. Or it is the token of a lease that shares the lock. Or nothing has been
# counted in this era, and a lease that was won before has set its part again.
sharer-above-grants | a Attempt, b Attempt, n Node, e Era, c Count
    (=> (and (lock n a) (shared a) (not (shared b)) (grant b n (memory n) e c))
        (or (below e c (era n) (count n))
            (and (= e (era n)) (= c (count n))
                 (or (shared-won e c) (and (won a) (= c 0))))))
    because one-lock grant-is-sound grant-upto-count sharers-are-noted
sharer-above-raises | a Attempt, b Attempt, n Node
    (=> (and (lock n a) (shared a) (not (shared b)) (raised b n (memory n)))
        (or (below (token-era b) (token-count b) (era n) (count n))
            (and (= (token-era b) (era n)) (= (token-count b) (count n))
                 (or (shared-won (token-era b) (token-count b))
                     (and (won a) (= (count n) 0))))))
    because one-lock raise-is-sound raise-upto-count sharers-are-noted

# The tokens that those who share a lock have won.

sharers-are-noted | a Attempt
    (=> (and (won a) (shared a)) (shared-won (token-era a) (token-count a)))
    because win-is-sound
first-sharer-is-sound | e Era, c Count
    (=> (shared-won e c)
        (and (won (first-sharer e c)) (shared (first-sharer e c))
             (= (token-era (first-sharer e c)) e)
             (= (token-count (first-sharer e c)) c)))
    because win-is-sound
# Where the first of a token is published, nobody alone is granted or published that token.
first-sharer-and-grant-differ | b Attempt, n Node, e Era, c Count
    (=> (and (shared-won e c) (in n (winners (first-sharer e c))) (not (shared b)))
        (not (grant b n (winner-memory (first-sharer e c) n) e c)))
    because first-sharer-is-sound winners-published grant-upto-count raise-upto-count
            holder-above-grants holder-above-raises grants-differ raise-and-grant-differ
first-sharer-and-raise-differ | b Attempt, n Node, e Era, c Count
    (=> (and (shared-won e c) (in n (winners (first-sharer e c))) (not (shared b))
             (raised b n (winner-memory (first-sharer e c) n)))
        (not (and (= (token-era b) e) (= (token-count b) c))))
    because first-sharer-is-sound winners-published raise-is-sound grant-upto-count raise-upto-count
            holder-above-grants holder-above-raises raise-and-grant-differ raises-differ
# So nobody alone wins a token that one who shares has won.
no-token-of-both | a Attempt
    (=> (and (won a) (not (shared a))) (not (shared-won (token-era a) (token-count a))))
    because win-is-sound choice-is-sound winners-published first-sharer-is-sound
            first-sharer-and-grant-differ first-sharer-and-raise-differ grant-is-sound raise-is-sound
            memories-in-order grant-is-past raise-is-past grant-above-past raise-above-past
            grants-differ raise-and-grant-differ raises-differ
";
