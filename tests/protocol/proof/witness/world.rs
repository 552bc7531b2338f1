//! A small world: fleet `f` of nodes 1, 2, 3 and fleet `g` of nodes 2, 3, 4.

/// The nodes of it.
pub const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// What there is.
pub const WORLD: &str = "
(declare-datatypes () ((Fleet f g) (Node n1 n2 n3 n4) (Client x1 x2)
    (Attempt a1 a2 a3 s1 s2) (Memory m1 m2 m3 m4 m5) (Quorum f12 f23 g23 g34)))
(define-sort Era () Int)
(define-sort Count () Int)
(define-fun other ((h Fleet)) Fleet (ite (= h f) g f))
(define-fun member ((n Node) (h Fleet)) Bool (ite (= h f) (not (= n n4)) (not (= n n1))))
(define-fun in ((n Node) (q Quorum)) Bool
    (or (and (= q f12) (or (= n n1) (= n n2))) (and (= q g34) (or (= n n3) (= n n4)))
        (and (or (= q f23) (= q g23)) (or (= n n2) (= n n3)))))
(define-fun of ((q Quorum)) Fleet (ite (or (= q f12) (= q f23)) f g))
(define-fun fleet ((a Attempt)) Fleet (ite (= a a3) g f))
(define-fun shared ((a Attempt)) Bool (or (= a s1) (= a s2)))
(define-fun under ((x Client)) Fleet (ite (= x x1) f g))
(define-fun target ((x Client)) Node n1)
(define-fun owner ((m Memory)) Node
    (ite (= m m2) n2 (ite (= m m3) n3 (ite (= m m4) n4 n1))))
";

/// Era 10 has just begun on nodes 1, 2, 3.
pub const START: &str = "
(define-const E Era 10)
(define-const first-era Era 10)
(define-const Q Quorum f12)
(define-fun admitted ((n Node) (h Fleet)) Bool (and (= h f) (not (= n n4))))
(define-fun memory ((n Node)) Memory
    (ite (= n n1) m1 (ite (= n n2) m2 (ite (= n n3) m3 m4))))
(define-fun era ((n Node)) Era (ite (= n n4) 0 10))
(define-fun reserved ((n Node)) Era (ite (= n n4) 0 10))
(define-fun promised ((e Era)) Bool (= e 10))
(define-fun promisers ((e Era)) Quorum f12)
(define-fun used ((m Memory)) Bool (not (= m m5)))
";
