//! The files of one crate, and the paths that each of them names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{files_in, read, repository};

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
    let root = repository().join(folder);
    let file = |path: PathBuf| {
        let below = path.strip_prefix(&root).unwrap().with_extension("");
        let names = below.iter().map(|name| name.to_str().unwrap().to_owned());
        let heads = ["mod", "lib", "main"];
        let module: Module = names.filter(|name| !heads.contains(&name.as_str())).collect();
        let shown = path.strip_prefix(repository()).unwrap().to_str().unwrap();
        File::new(shown, module, &read(&path))
    };
    let files = files_in(&root, "rs").into_iter().map(file);
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
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found = Vec::new();
    flatten(code.parse().unwrap(), &mut found);
    found
}

fn flatten(code: TokenStream, found: &mut Vec<String>) {
    for tree in code {
        match tree {
            TokenTree::Group(group) => {
                let marks = match group.delimiter() {
                    Delimiter::Brace => ["{", "}"],
                    _ => ["(", ")"],
                };
                found.push(marks[0].to_owned());
                flatten(group.stream(), found);
                found.push(marks[1].to_owned());
            }
            TokenTree::Ident(name) => found.push(name.to_string()),
            TokenTree::Punct(mark) => match found.last_mut() {
                Some(last) if last == ":" && mark.as_char() == ':' => last.push(':'),
                _ => found.push(mark.to_string()),
            },
            TokenTree::Literal(_) => {}
        }
    }
}
