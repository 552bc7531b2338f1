use std::collections::BTreeMap;

use fencing_protocol::Token;

/// How many requests with each token are in flight. The smallest token has a field of its own: mostly there is
/// no other, and it takes no allocation.
#[derive(Default)]
pub(super) struct TokenCounts {
    oldest: Option<(Token, usize)>,
    newer: BTreeMap<Token, usize>,
}

impl TokenCounts {
    pub(super) fn oldest(&self) -> Option<Token> {
        self.oldest.map(|(token, _)| token)
    }

    pub(super) fn count(&self, token: Token) -> usize {
        match self.oldest {
            Some((oldest, count)) if oldest == token => count,
            _ => self.newer.get(&token).copied().unwrap_or(0),
        }
    }

    pub(super) fn enter(&mut self, token: Token) {
        match &mut self.oldest {
            Some((oldest, count)) if *oldest == token => *count += 1,
            Some((oldest, _)) if *oldest < token => *self.newer.entry(token).or_default() += 1,
            place => {
                self.newer.extend(place.take());
                *place = Some((token, 1));
            }
        }
    }

    pub(super) fn leave(&mut self, token: Token) {
        match &mut self.oldest {
            Some((oldest, count)) if *oldest == token => {
                *count -= 1;
                if *count == 0 {
                    self.oldest = self.newer.pop_first();
                }
            }
            _ => {
                let Some(count) = self.newer.get_mut(&token) else { return };
                *count -= 1;
                if *count == 0 {
                    self.newer.remove(&token);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_counted_in_whatever_order_they_come_and_go() {
        // All orders of four requests, of which two have the same token.
        let tokens = [33, 34, 34, 35].map(|number| Token::new(number).unwrap());
        let orders: Vec<[usize; 4]> = (0..256)
            .map(|code| [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6])
            .filter(|order| (0..4).all(|place| order.contains(&place)))
            .collect();
        assert_eq!(orders.len(), 24);
        for coming in &orders {
            for going in &orders {
                let (mut flight, mut model) = (TokenCounts::default(), Vec::new());
                let check = |flight: &TokenCounts, model: &Vec<Token>| {
                    assert_eq!(flight.oldest(), model.iter().min().copied());
                    for token in tokens {
                        let count = model.iter().filter(|other| **other == token).count();
                        assert_eq!(flight.count(token), count);
                    }
                };
                for &place in coming {
                    flight.enter(tokens[place]);
                    model.push(tokens[place]);
                    check(&flight, &model);
                }
                for &place in going {
                    flight.leave(tokens[place]);
                    let found = model.iter().position(|other| *other == tokens[place]).unwrap();
                    model.remove(found);
                    check(&flight, &model);
                }
            }
        }
    }
}
