use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use futures_util::future::join_all;
use tokio::time::timeout;

use super::{Breach, Rule};
use crate::fence::{FenceError, Marks, Stale};

/// Time for which the suite waits for one answer: ten times what is already long.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Names that a collation, a key or a field might confuse.
const NAMES: [&str; 14] =
    ["R", "r", "r.", "r/", "r\u{301}", "\u{155}", "r\u{200b}", "r r", "r  r", "r%", "{r}", "era", "admitted", "nonce"];

/// Checks that marks, none of which was raised yet, keep the contract of [`Marks`].
///
/// They must have room for 30 resources.
///
/// # Errors
/// Returns the first [`Breach`].
pub async fn marks_contract(marks: &dyn Marks) -> Result<(), Breach> {
    order(marks).await?;
    refusal(marks).await?;
    bounds(marks).await?;
    names(marks).await?;
    concurrent(marks).await
}

/// Raises a mark. The inner result is the answer of the marks.
async fn raise(marks: &dyn Marks, resource: &Resource, token: Token) -> Result<Result<(), Stale>, Breach> {
    let case = || format!("raise {resource} to {token}");
    match timeout(ANSWER_WITHIN, marks.raise(resource, token)).await {
        Ok(Ok(())) => Ok(Ok(())),
        Ok(Err(FenceError::Stale(stale))) => Ok(Err(stale)),
        Ok(Err(error)) => Err(Rule::Answers.breach(case(), &error)),
        Err(_) => Err(Rule::Answers.breach(case(), &"no answer")),
    }
}

fn resource(name: &str) -> Result<Resource, Breach> {
    Resource::new(name).map_err(|error| Rule::NamesApart.breach(name, &error))
}

fn token(number: u64) -> Result<Token, Breach> {
    Token::new(number).map_err(|error| Rule::HigherPasses.breach(number.to_string(), &error))
}

async fn passes(marks: &dyn Marks, rule: Rule, resource: &Resource, token: Token, after: &str) -> Result<(), Breach> {
    let answer = raise(marks, resource, token).await?;
    rule.holds(answer.is_ok(), format!("raise {resource} to {token} {after}"), &answer)
}

/// Raises a mark to a lower token, which must be refused. Every part of the refusal must be right.
async fn refused(marks: &dyn Marks, resource: &Resource, presented: Token, highest: Token) -> Result<(), Breach> {
    let case = format!("raise {resource} to {presented} after {highest}");
    let answer = raise(marks, resource, presented).await?;
    Rule::LowerRefused.holds(answer.is_err(), &case, &"passed")?;
    let wanted = Stale::check(resource, presented, Some(highest));
    Rule::RefusalReports.holds(answer == wanted, format!("{case}, to give {wanted:?}"), &answer)
}

/// Reads a mark, which must not be above `bound`.
async fn read(marks: &dyn Marks, resource: &Resource, bound: Option<Token>) -> Result<(), Breach> {
    let case = || format!("read the mark of {resource}");
    match timeout(ANSWER_WITHIN, marks.highest(resource)).await {
        Ok(Ok(highest)) => Rule::MarkRead.holds(highest <= bound, case(), &highest),
        Ok(Err(error)) => Err(Rule::Answers.breach(case(), &error)),
        Err(_) => Err(Rule::Answers.breach(case(), &"no answer")),
    }
}

async fn order(marks: &dyn Marks) -> Result<(), Breach> {
    let resource = resource("order")?;
    read(marks, &resource, None).await?;
    passes(marks, Rule::HigherPasses, &resource, token(33)?, "first").await?;
    read(marks, &resource, Some(token(33)?)).await?;
    passes(marks, Rule::EqualPasses, &resource, token(33)?, "again").await?;
    passes(marks, Rule::HigherPasses, &resource, token(34)?, "after 33").await?;
    refused(marks, &resource, token(33)?, token(34)?).await?;
    passes(marks, Rule::EqualPasses, &resource, token(34)?, "again").await
}

async fn refusal(marks: &dyn Marks) -> Result<(), Breach> {
    let resource = resource("refusal")?;
    passes(marks, Rule::HigherPasses, &resource, token(100)?, "first").await?;
    for lower in [99, 1, 50] {
        refused(marks, &resource, token(lower)?, token(100)?).await?;
    }
    passes(marks, Rule::EqualPasses, &resource, token(100)?, "after refusals").await
}

/// Tokens must be compared as numbers, not as texts, and exactly to the last digit.
async fn bounds(marks: &dyn Marks) -> Result<(), Breach> {
    let resource = resource("bounds")?;
    let (next, below) = (token(10)?, token(Token::MAX.get() - 1)?);
    passes(marks, Rule::HigherPasses, &resource, Token::MIN, "first").await?;
    passes(marks, Rule::HigherPasses, &resource, token(9)?, "after 1").await?;
    passes(marks, Rule::HigherPasses, &resource, next, "after 9").await?;
    refused(marks, &resource, token(9)?, next).await?;
    passes(marks, Rule::HigherPasses, &resource, below, "after 10").await?;
    passes(marks, Rule::HigherPasses, &resource, Token::MAX, "after the last but one").await?;
    refused(marks, &resource, below, Token::MAX).await?;
    refused(marks, &resource, Token::MIN, Token::MAX).await?;
    passes(marks, Rule::EqualPasses, &resource, Token::MAX, "again").await
}

/// Each name must have a mark of its own: the first tokens go down from name to name.
async fn names(marks: &dyn Marks) -> Result<(), Breach> {
    let long = [0, 1].map(|less| "n".repeat(Resource::MAX_BYTES - less));
    let names: Vec<&str> = NAMES.into_iter().chain(long.iter().map(String::as_str)).collect();
    let mut number = 1000;
    for name in &names {
        passes(marks, Rule::NamesApart, &resource(name)?, token(number)?, "first").await?;
        number -= 1;
    }
    number = 1000;
    for name in &names {
        refused(marks, &resource(name)?, token(number - 1)?, token(number)?).await?;
        number -= 1;
    }
    Ok(())
}

async fn concurrent(marks: &dyn Marks) -> Result<(), Breach> {
    let resource = resource("concurrent")?;
    let confirmed = AtomicU64::new(0);
    let raises = (0..60_u64).map(|number| {
        let (resource, confirmed) = (&resource, &confirmed);
        async move {
            for _ in 0..number % 5 {
                tokio::task::yield_now().await;
            }
            let presented = token((number * 7919) % 40 + 1)?;
            let before = confirmed.load(Ordering::SeqCst);
            let case = || format!("raise to {presented} begun after {before} had passed");
            match raise(marks, resource, presented).await? {
                Ok(()) => {
                    confirmed.fetch_max(presented.get(), Ordering::SeqCst);
                    Rule::Linear.holds(presented.get() >= before, case(), &"passed")
                }
                Err(stale) => {
                    let stands = Stale::check(resource, presented, Some(stale.highest)).is_err();
                    let right = stands && stale.highest.get() >= before;
                    Rule::RefusalReports.holds(right, case(), &stale)
                }
            }
        }
    });
    join_all(raises).await.into_iter().collect::<Result<(), Breach>>()?;
    passes(marks, Rule::EqualPasses, &resource, token(40)?, "after 1 to 40 at once").await?;
    refused(marks, &resource, token(39)?, token(40)?).await
}
