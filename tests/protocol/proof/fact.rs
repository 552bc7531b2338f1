//! A sentence for all values of its variables.

/// `for all vars: body`, with a name to speak of it.
#[derive(Clone)]
pub struct Fact {
    pub name: &'static str,
    /// `a Attempt, n Node`
    pub vars: &'static str,
    pub body: &'static str,
}

/// States that the body holds for all values of the variables.
pub const fn fact(name: &'static str, vars: &'static str, body: &'static str) -> Fact {
    Fact { name, vars, body }
}

/// The pairs of a list such as `a Attempt, n Node`.
pub fn pairs(vars: &str) -> Vec<(&str, &str)> {
    vars.split(',').filter_map(|pair| pair.trim().split_once(' ')).collect()
}

/// The list as SMT-LIB writes it: `((a Attempt) (n Node))`.
pub fn binders(vars: &str) -> String {
    let list: Vec<String> = pairs(vars).iter().map(|(v, sort)| format!("({v} {sort})")).collect();
    format!("({})", list.join(" "))
}

/// The body for all values of the variables.
pub fn closed(vars: &str, body: &str) -> String {
    if vars.is_empty() {
        return body.to_owned();
    }
    format!("(forall {} {body})", binders(vars))
}
