//! The files of one crate, and the paths that each of them names.

use std::collections::BTreeMap;
use std::path::Path;

/// A module path from the root of its crate.
pub type Module = Vec<String>;

/// One file.
pub struct File {
    /// As it is shown, such as `src/lock/lease.rs`.
    pub path: String,
    pub module: Module,
    pub text: String,
    /// What it imports, by the name that it gives to it, in the module where that stands.
    pub names: BTreeMap<(Module, String), Module>,
    /// Every path that it names with the module where that stands.
    pub paths: Vec<(Module, Module)>,
}

impl File {
    /// Reads the text of a file.
    pub fn new(path: &str, module: Module, text: &str) -> File {
        let (mut names, mut paths) = (BTreeMap::new(), Vec::new());
        let tokens = tokens(text);
        let mut inside: Vec<(Module, usize)> = vec![(module.clone(), 0)];
        let (mut at, mut depth) = (0, 0);
        while let Some(token) = tokens.get(at) {
            let here = inside.last().expect("the file itself").0.clone();
            let next = |n: usize| tokens.get(at + n).map_or("", String::as_str);
            match token.as_str() {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inside.retain(|(_, opened)| *opened <= depth);
                }
                "mod" if next(2) == "{" => {
                    depth += 1;
                    let name = next(1).to_owned();
                    inside.push((here.iter().cloned().chain([name]).collect(), depth));
                    at += 2;
                }
                "use" if next(1) != "<" => {
                    let mut leaves = Vec::new();
                    at = tree(&tokens, at + 1, &[], &mut leaves);
                    for (path, name) in leaves {
                        paths.push((here.clone(), path.clone()));
                        names.insert((here.clone(), name), path);
                    }
                }
                _ if next(1) == "::" && is_name(token) => {
                    let mut path = vec![token.clone()];
                    while tokens.get(at + 1).is_some_and(|t| t == "::")
                        && tokens.get(at + 2).is_some_and(|t| is_name(t))
                    {
                        at += 2;
                        path.push(tokens[at].clone());
                    }
                    paths.push((here, path));
                }
                _ => {}
            }
            at += 1;
        }
        File { path: path.to_owned(), module, text: text.to_owned(), names, paths }
    }

    /// A folder's `mod.rs`, `lib.rs` or `main.rs`.
    pub fn is_head(&self) -> bool {
        ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| self.path.ends_with(name))
    }
}

/// Every file below a folder of this repository, but tests.
pub fn crate_in(folder: &str) -> Vec<File> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let root = repository.join(folder);
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    let file = |path: &std::path::PathBuf| {
        let below = path.strip_prefix(&root).unwrap().with_extension("");
        let names = below.iter().map(|name| name.to_str().unwrap().to_owned());
        let heads = ["mod", "lib", "main"];
        let module: Module = names.filter(|name| !heads.contains(&name.as_str())).collect();
        let shown = path.strip_prefix(repository).unwrap().to_str().unwrap();
        File::new(shown, module, &std::fs::read_to_string(path).unwrap())
    };
    let files = found.iter().map(file);
    files.filter(|file| file.module.last().is_none_or(|last| last != "tests")).collect()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The leaves of a tree after `use`: path, and the name that it has from now on. Returns where
/// the tree ends.
fn tree(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    leaves: &mut Vec<(Module, String)>,
) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens.get(at).map_or(";", String::as_str) {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = tree(tokens, at, &path, leaves);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "as" => {
                leaves.push((path, tokens[at + 1].clone()));
                return at + 2;
            }
            ";" | "," | "}" => {
                path.truncate(path.len() - usize::from(path.last().is_some_and(|n| n == "self")));
                let name = path.last().cloned().unwrap_or_default();
                leaves.push((path, name));
                return at;
            }
            name => {
                path.push(name.to_owned());
                at += 1;
            }
        }
    }
}

/// The words and marks of the code: without comments, literals, and modules of tests.
fn tokens(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            found.push(rest[..end.unwrap_or(rest.len())].to_owned());
            end.unwrap_or(rest.len())
        } else {
            let mark = if rest.starts_with("::") { "::" } else { &rest[..first.len_utf8()] };
            if !first.is_whitespace() {
                found.push(mark.to_owned());
            }
            mark.len()
        };
        rest = &rest[length..];
    }
    found
}

/// The length of the text or character that stands here, if one does.
fn literal(text: &str) -> Option<usize> {
    let raw = text.strip_prefix('b').unwrap_or(text).strip_prefix('r');
    if let Some(raw) = raw {
        let marks = raw.len() - raw.trim_start_matches('#').len();
        if raw[marks..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(marks));
            let start = text.len() - raw.len() + marks + 1;
            return Some(start + text[start..].find(&end)? + end.len());
        }
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            // A lifetime, as in `'a`.
            _ if quote == '\'' && at > 1 && c != '\'' && !text[1..].starts_with('\\') => {
                return None;
            }
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}
