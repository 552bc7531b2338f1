use fencing_protocol::Token;
use smallvec::SmallVec;

/// The number of requests in flight with each token, the oldest token first. Mostly there is one, and it takes
/// no allocation.
#[derive(Default)]
pub(super) struct TokenCounts(SmallVec<[(Token, usize); 1]>);

impl TokenCounts {
    pub(super) fn oldest(&self) -> Option<Token> {
        self.0.first().map(|(token, _)| *token)
    }

    /// Returns the place of a token, or where it would be.
    fn place(&self, token: Token) -> Result<usize, usize> {
        self.0.binary_search_by_key(&token, |(token, _)| *token)
    }

    pub(super) fn count(&self, token: Token) -> usize {
        let found = self.place(token).ok().and_then(|place| self.0.get(place));
        found.map_or(0, |(_, count)| *count)
    }

    pub(super) fn enter(&mut self, token: Token) {
        match self.place(token) {
            Ok(place) => self.0.get_mut(place).into_iter().for_each(|(_, count)| *count += 1),
            Err(place) => self.0.insert(place, (token, 1)),
        }
    }

    pub(super) fn leave(&mut self, token: Token) {
        if let Ok(place) = self.place(token)
            && let Some((_, count)) = self.0.get_mut(place)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(place);
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
