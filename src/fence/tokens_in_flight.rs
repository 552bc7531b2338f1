use fencing_protocol::Token;
use smallvec::SmallVec;

/// The tokens of some requests in their order, each as often as requests have it. One or two take no allocation.
#[derive(Default)]
pub(super) struct TokensInFlight(SmallVec<[Token; 2]>);

impl TokensInFlight {
    pub(super) fn oldest(&self) -> Option<Token> {
        self.0.first().copied()
    }

    pub(super) fn newest(&self) -> Option<Token> {
        self.0.last().copied()
    }

    pub(super) fn count(&self, token: Token) -> usize {
        self.end(token) - self.0.partition_point(|other| *other < token)
    }

    /// Returns the place behind the last request with this token.
    fn end(&self, token: Token) -> usize {
        self.0.partition_point(|other| *other <= token)
    }

    pub(super) fn enter(&mut self, token: Token) {
        self.0.insert(self.end(token), token);
    }

    pub(super) fn leave(&mut self, token: Token) {
        if let Some(place) = self.end(token).checked_sub(1)
            && self.0.get(place) == Some(&token)
        {
            self.0.remove(place);
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
                let (mut flight, mut model) = (TokensInFlight::default(), Vec::new());
                let check = |flight: &TokensInFlight, model: &Vec<Token>| {
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
