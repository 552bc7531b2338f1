//! Grants, publishes, tokens; those who share a lock.

pub const FACTS: &str = "
# Across the memories of one node.

# A grant is of a memory of the node, in a promised era of the attempt's fleet.
grant-is-sound | a Attempt, n Node, m Memory, e Era, c Count
    (=> (grant a n m e c)
        (and (used m) (= (owner m) n) (began a) (promised e)
             (= (of (promisers e)) (fleet a))))
    because memory-is-own era-is-promised
raise-is-sound | a Attempt, n Node, m Memory
    (=> (raised a n m) (and (used m) (= (owner m) n) (chose a)))
    because memory-is-own
# What was granted or published in a memory was promised before any later memory.
grant-is-past | a Attempt, n Node, m Memory, k Memory, e Era, c Count
    (=> (and (grant a n m e c) (earlier m k)) (past k e))
    because nothing-later grant-is-sound
raise-is-past | a Attempt, n Node, m Memory, k Memory
    (=> (and (raised a n m) (earlier m k)) (past k (token-era a)))
    because nothing-later raise-is-sound choice-is-sound
# A memory grants and publishes in larger eras only than were promised before it.
grant-above-past | a Attempt, n Node, m Memory, e Era, c Count, d Era
    (=> (and (grant a n m e c) (past m d)) (> e d))
    because back-in-larger-era grant-is-sound
raise-above-past | a Attempt, n Node, m Memory, d Era
    (=> (and (raised a n m) (past m d)) (> (token-era a) d))
    because back-in-larger-era raise-is-sound
# In one memory no two attempts are granted or published the same, unless both share the lock.
# One of them may share it if the token is that of a lease which does so already.
grants-differ | a Attempt, b Attempt, n Node, m Memory, e Era, c Count
    (=> (and (grant a n m e c) (grant b n m e c))
        (or (= a b) (and (shared a) (shared b))
            (and (or (shared a) (shared b)) (shared-won e c))))
    because grant-upto-count holder-above-grants sharer-above-grants
raise-and-grant-differ | a Attempt, b Attempt, n Node, m Memory
    (=> (and (raised a n m) (grant b n m (token-era a) (token-count a)))
        (or (= a b) (and (shared a) (shared b))
            (and (or (shared a) (shared b)) (shared-won (token-era a) (token-count a)))))
    because raise-is-sound raise-upto-count holder-above-grants holder-above-raises sharer-above-grants
            sharer-above-raises
raises-differ | a Attempt, b Attempt, n Node, m Memory
    (=> (and (raised a n m) (raised b n m) (= (token-era a) (token-era b))
             (= (token-count a) (token-count b)))
        (or (= a b) (and (shared a) (shared b))
            (and (or (shared a) (shared b)) (shared-won (token-era a) (token-count a)))))
    because raise-is-sound holder-above-raises sharer-above-raises

# In the memory that a node has.

grant-upto-count | a Attempt, n Node, e Era, c Count
    (=> (grant a n (memory n) e c) (upto e c (era n) (count n)))
    because grant-is-sound
raise-upto-count | a Attempt, n Node
    (=> (raised a n (memory n)) (upto (token-era a) (token-count a) (era n) (count n)))
    because raise-is-sound
one-lock | a Attempt, b Attempt, n Node
    (=> (and (lock n a) (lock n b)) (or (= a b) (and (shared a) (shared b))))
# While somebody holds the lock alone who has not won, the count is above all others'.
holder-above-grants | a Attempt, b Attempt, n Node, e Era, c Count
    (=> (and (lock n a) (not (shared a)) (not (won a)) (grant b n (memory n) e c)
             (not (= a b)))
        (below e c (era n) (count n)))
    because one-lock grant-is-sound grant-upto-count
holder-above-raises | a Attempt, b Attempt, n Node
    (=> (and (lock n a) (not (shared a)) (not (won a)) (raised b n (memory n))
             (not (= a b)))
        (below (token-era b) (token-count b) (era n) (count n)))
    because one-lock raise-is-sound raise-upto-count

# What an attempt has put together.

choice-is-sound | a Attempt
    (=> (chose a)
        (and (began a) (promised (token-era a))
             (= (of (promisers (token-era a))) (fleet a))
             (= (of (choosers a)) (fleet a))))
    because grant-is-sound
# The token is at least every grant that was counted for it, a majority's.
choice-above-counted | a Attempt, n Node
    (=> (and (chose a) (in n (choosers a)))
        (and (grant a n (counted-memory a n) (counted-era a n) (counted-count a n))
             (upto (counted-era a n) (counted-count a n) (token-era a) (token-count a))))
win-is-sound | a Attempt
    (=> (won a) (and (chose a) (= (of (winners a)) (fleet a))))
# A majority is published.
winners-published | a Attempt, n Node
    (=> (and (won a) (in n (winners a))) (published a n (winner-memory a n)))
    because win-is-sound
before-is-sound | a Attempt, b Attempt
    (=> (before a b) (and (won a) (began b)))
# Where an attempt is published, whoever began later is granted more; if both share the lock,
# not less.
later-granted-more | a Attempt, b Attempt, n Node, m Memory, e Era, c Count
    (=> (and (before a b) (= (fleet a) (fleet b)) (grant b n m e c) (in n (winners a)))
        (or (below (token-era a) (token-count a) e c)
            (and (shared a) (shared b) (= (token-era a) e) (= (token-count a) c))))
    because before-is-sound win-is-sound winners-published grant-is-sound raise-is-sound
            grant-upto-count raise-upto-count holder-above-grants holder-above-raises
            sharer-above-grants sharer-above-raises no-token-of-both memory-is-last grant-is-past
            raise-is-past back-in-larger-era

# Those who share a lock, beside those who hold it alone: in the memory that a node has.

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
