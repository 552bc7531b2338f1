//! Names by their form.

/// A form of names: `*` stands for any text, `?` for any character, all else for itself.
#[derive(Debug, Clone)]
pub(crate) struct Glob(Vec<char>);

impl Glob {
    pub(crate) fn new(form: &str) -> Glob {
        Glob(form.chars().collect())
    }

    /// Reports whether a name has this form. It takes at most the product of the two lengths in steps.
    pub(crate) fn fits(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut here) = (0, 0);
        // Behind the last star, and where its text ends so far.
        let mut star: Option<(usize, usize)> = None;
        while let Some(c) = name.get(here) {
            match self.0.get(at) {
                Some('*') => {
                    star = Some((at + 1, here));
                    at += 1;
                }
                Some(form) if *form == '?' || form == c => (at, here) = (at + 1, here + 1),
                _ => {
                    let Some((behind, end)) = star else { return false };
                    star = Some((behind, end + 1));
                    (at, here) = (behind, end + 1);
                }
            }
        }
        self.0.iter().skip(at).all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (form, name) in [
            ("*", "invoice/42"),
            ("invoice/*", "invoice/42"),
            ("*/42", "invoice/42"),
            ("*o*4?", "invoice/42"),
            ("a*a*a", "aaaa"),
            ("ä?", "äö"),
            ("a**", "a"),
        ] {
            assert!(Glob::new(form).fits(name), "{form} {name}");
        }
        for (form, name) in [
            ("", "a"),
            ("a", "ab"),
            ("invoice/?", "invoice/42"),
            ("*/43", "invoice/42"),
            ("[a]", "a"),
            ("a*a*a", "aa"),
        ] {
            assert!(!Glob::new(form).fits(name), "{form} {name}");
        }
    }
}
