//! A sentence for all values of its variables, and tables of such sentences.

/// `for all vars: body`, with a name to speak of it.
#[derive(Clone)]
pub struct Fact {
    pub name: &'static str,
    /// `a Attempt, n Node`
    pub vars: &'static str,
    pub body: &'static str,
}

pub const fn fact(name: &'static str, vars: &'static str, body: &'static str) -> Fact {
    Fact { name, vars, body }
}

/// An entry of a table: its head stands at the margin, its items are indented.
pub type Entry = (&'static str, Vec<&'static str>);

/// Reads a table. Lines that are indented further go on with an item; `#` begins a comment.
pub fn entries(table: &'static str) -> Vec<Entry> {
    let mut entries = Vec::<(&str, Vec<String>)>::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(item) = line.strip_prefix("    ") else {
            entries.push((line, Vec::new()));
            continue;
        };
        let items = &mut entries.last_mut().expect("a head").1;
        match item.strip_prefix("    ") {
            Some(more) => *items.last_mut().expect("an item") += &format!(" {}", more.trim()),
            None => items.push(item.to_owned()),
        }
    }
    let leaked = |items: Vec<String>| items.into_iter().map(|item| &*item.leak()).collect();
    entries.into_iter().map(|(head, items)| (head, leaked(items))).collect()
}

/// The fact of an entry, with name and variables as its head and the body as its first item; and the other items.
pub fn read((head, items): Entry) -> (Fact, Vec<&'static str>) {
    let (name, vars) = head.split_once(" | ").unwrap_or((head, ""));
    (fact(name, vars, items[0]), items[1..].to_vec())
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

pub fn closed(vars: &str, body: &str) -> String {
    if vars.is_empty() {
        return body.to_owned();
    }
    format!("(forall {} {body})", binders(vars))
}
