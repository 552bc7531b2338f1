//! Marks that break one rule each.

use std::collections::HashMap;
use std::sync::Mutex;

use fencing::fence::{FenceError, Marks, Stale};
use fencing::testing::{Rule, marks_contract};
use fencing::{Resource, Token};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    None,
    AcceptsLower,
    RefusesEqual,
    LowersWhenRefusing,
    ForgetsCase,
    ComparesAsText,
    ComparesFirst,
    ReadsTooHigh,
}

struct FlawedMarks {
    flaw: Flaw,
    marks: Mutex<HashMap<String, Token>>,
}

impl FlawedMarks {
    fn key(&self, resource: &Resource) -> String {
        let name = resource.as_str();
        if self.flaw == Flaw::ForgetsCase { name.to_lowercase() } else { name.to_owned() }
    }

    fn raise(&self, resource: &Resource, token: Token) -> Result<(), FenceError> {
        let mut marks = self.marks.lock().unwrap();
        let highest = marks.entry(self.key(resource)).or_insert(Token::MIN);
        let lower = match self.flaw {
            Flaw::AcceptsLower => false,
            Flaw::RefusesEqual => token <= *highest && *highest > Token::MIN,
            Flaw::ComparesAsText => token.to_string() < highest.to_string(),
            _ => token < *highest,
        };
        if lower {
            // A refusal that may be wrong, which no check gives.
            let mut stale = Stale::check(resource, Token::MIN, Some(Token::MAX)).unwrap_err();
            (stale.presented, stale.highest) = (token, *highest);
            if self.flaw == Flaw::LowersWhenRefusing {
                *highest = token;
            }
            return Err(stale.into());
        }
        *highest = token;
        Ok(())
    }
}

impl Marks for FlawedMarks {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        if self.flaw != Flaw::ComparesFirst {
            return ready(FlawedMarks::raise(self, resource, token)).boxed();
        }
        Box::pin(async move {
            let before = self.marks.lock().unwrap().get(&self.key(resource)).copied();
            if before.is_some_and(|before| before > token) {
                return FlawedMarks::raise(self, resource, token);
            }
            // The gap that one atomic step has not.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            self.marks.lock().unwrap().insert(self.key(resource), token);
            Ok(())
        })
    }

    fn highest<'a>(&'a self, _: &'a Resource) -> BoxFuture<'a, Result<Option<Token>, FenceError>> {
        ready(Ok((self.flaw == Flaw::ReadsTooHigh).then_some(Token::MAX))).boxed()
    }
}

#[tokio::test]
async fn flawed_marks_are_found_out() {
    let run = async |flaw| {
        let marks = FlawedMarks { flaw, marks: Mutex::default() };
        marks_contract(&marks).await
    };
    run(Flaw::None).await.unwrap();
    for (flaw, rule) in [
        (Flaw::AcceptsLower, Rule::LowerRefused),
        (Flaw::RefusesEqual, Rule::EqualPasses),
        (Flaw::LowersWhenRefusing, Rule::RefusalReports),
        (Flaw::ForgetsCase, Rule::NamesApart),
        (Flaw::ComparesAsText, Rule::LowerRefused),
        (Flaw::ComparesFirst, Rule::Linear),
        (Flaw::ReadsTooHigh, Rule::MarkRead),
    ] {
        let breach = run(flaw).await.unwrap_err();
        assert_eq!(breach.rule, rule, "{flaw:?}: {breach}");
    }
    let breach = run(Flaw::AcceptsLower).await.unwrap_err();
    let text = r#"broken: a lower token is refused; raise order to 33 after 34: found "passed""#;
    assert_eq!(breach.to_string(), text);
}
