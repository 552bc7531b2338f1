//! A run of a small world: fleet `f` is nodes 1, 2, 3, `g` is 2, 3, 4. A word has a version per step that changed it.

use std::collections::BTreeMap;

use crate::proof::fact::{Fact, binders, closed, fact, pairs};
use crate::proof::obligation::{Obligation, started};
use crate::proof::steps;
use crate::proof::words::{self, DERIVED, STATE, TOKENS, Word};

/// A run of the world, all of whose words are defined.
pub struct Run {
    text: String,
    version: BTreeMap<&'static str, usize>,
    taken: usize,
    /// That every rule holds where its step is taken.
    pub obligations: Vec<Obligation>,
}

impl Run {
    pub fn new() -> Run {
        let mut text = format!("{WORLD}{START}");
        for word in STATE {
            if !START.contains(&format!("-fun {} ", word.name)) {
                text += &nothing_yet(word);
            }
        }
        text += TOKENS;
        let mut run = Run { text, version: BTreeMap::new(), taken: 0, obligations: Vec::new() };
        for derived in DERIVED {
            run.define(derived.name, derived.takes, derived.gives, derived.body);
        }
        run.check("started", "facts", &started());
        run
    }

    fn now(&self, text: &str) -> String {
        words::renamed(text, |symbol| {
            let version = self.version.get(symbol)?;
            Some(format!("{symbol}@{version}"))
        })
    }

    /// Defines the next version of a word by those of now.
    fn define(&mut self, word: &'static str, vars: &str, gives: &str, body: &str) {
        let mut body = self.now(body);
        self.taken += 1;
        let name = format!("{word}@{}", self.taken);
        self.version.insert(word, self.taken);
        if vars == "n Node" {
            body = self.tabulated(&name, gives, &body);
        }
        self.text += &format!("(define-fun {name} {} {gives} {body})\n", binders(vars));
    }

    /// A constant for each node, and the body that names them. Otherwise the solver, which puts a body
    /// in the place of its name, has twice as much to read for each step that adds to a count.
    fn tabulated(&mut self, name: &str, gives: &str, body: &str) -> String {
        for node in NODES {
            self.text += &format!("(declare-const {name}@{node} {gives})\n");
            self.text += &format!("(assert (= {name}@{node} (let ((n {node})) {body})))\n");
        }
        let [first, rest @ ..] = NODES;
        let last = format!("{name}@{first}");
        rest.iter().fold(last, |last, node| format!("(ite (= n {node}) {name}@{node} {last})"))
    }

    fn check(&mut self, step: &'static str, goal: &'static str, facts: &[Fact]) {
        let all: String = facts.iter().map(|fact| closed(fact.vars, fact.body) + " ").collect();
        let denied = format!("(assert (not (and true {})))\n", self.now(&all));
        self.obligations.push(Obligation { step, goal, text: self.text.clone() + &denied });
    }

    /// Takes the steps of a script, one in each line. `#` begins a comment.
    pub fn steps(&mut self, script: &str) {
        let steps = script.lines().filter_map(|line| line.split_once(" | "));
        steps.filter(|(name, _)| !name.starts_with('#')).for_each(|(it, values)| self.step(it, values));
    }

    /// Takes the step of this name with these values for its parameters; a function's is given for `n`.
    pub fn step(&mut self, name: &str, values: &str) {
        let step = steps::step(name);
        for ((param, sort), (given, value)) in pairs(step.params).into_iter().zip(pairs(values)) {
            assert_eq!(param, given, "{}", step.name);
            let (vars, gives) = match sort.split_once('>') {
                Some(("Attempt", gives)) => ("a Attempt", gives),
                Some((_, gives)) => ("n Node", gives),
                None => ("", sort),
            };
            self.define(param, vars, gives, value);
        }
        self.check(step.name, "rules", &step.rules);
        // All changes are made at once: each from the versions before the step.
        let before = self.version.clone();
        let mut after = before.clone();
        for change in &step.changes {
            let word = STATE.iter().find(|word| word.name == change.word).unwrap();
            self.version.clone_from(&before);
            self.define(word.name, change.vars, word.gives, &change.body);
            after.insert(word.name, self.taken);
        }
        self.version = after;
        let changed = step.changed();
        for derived in DERIVED.iter().filter(|d| words::mentions(d.body, &changed)) {
            self.define(derived.name, derived.takes, derived.gives, derived.body);
        }
    }

    pub fn ends(&mut self, body: &'static str) {
        self.check("end", "in-order", &[fact("in-order", "", body)]);
    }
}

fn nothing_yet(word: &Word) -> String {
    let Word { name, takes, gives } = word;
    let vars = takes.iter().enumerate().map(|(number, sort)| format!("(v{number} {sort})"));
    let value = match *gives {
        "Bool" => "false",
        "Memory" => "m1",
        "Attempt" => "a1",
        "Quorum" => "f12",
        _ => "0",
    };
    format!("(define-fun {name} ({}) {gives} {value})\n", vars.collect::<String>())
}

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

const WORLD: &str = "
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
const START: &str = "
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
