//! Runs the program `z3`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::proof::obligation::Obligation;

/// For each question; the slowest takes less than a second.
const LIMIT: Duration = Duration::from_secs(600);

/// What the solver says of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No state denies it.
    Proved,
    /// A state denies it.
    Refuted,
    Unknown,
}

/// What came of one question, and how long it took.
pub struct Answer {
    pub step: &'static str,
    pub goal: &'static str,
    pub verdict: Verdict,
    pub took: Duration,
}

/// Asks every question; the answers are in the same order.
pub fn ask(questions: &[Obligation]) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(question) = questions.get(number) else { break };
                    let answer = run(question);
                    answers.lock().unwrap().push((number, answer));
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap();
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn run(question: &Obligation) -> Answer {
    let Obligation { step, goal, text } = question;
    let started = Instant::now();
    let said = z3(&format!("{text}(check-sat)\n"));
    let verdict = match said.trim() {
        "unsat" => Verdict::Proved,
        "sat" => Verdict::Refuted,
        "unknown" | "timeout" => Verdict::Unknown,
        other => panic!("z3 on {step}, {goal}: {other}"),
    };
    Answer { step, goal, verdict, took: started.elapsed() }
}

fn z3(text: &str) -> String {
    let mut z3 = Command::new("z3");
    z3.args(["-smt2", "-in", &format!("-T:{}", LIMIT.as_secs())]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut z3 = z3.spawn().expect("the proof needs the program z3 (on Debian: apt-get install z3)");
    z3.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = z3.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
