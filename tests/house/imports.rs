//! What each file of a crate imports, followed through all exports to the file that defines it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proc_macro2::{TokenStream, TokenTree};

use crate::{files_in, read, repository};

/// A module path from the root of its crate.
pub type Module = Vec<String>;

pub struct File {
    /// As it is shown, such as `src/lock/lease.rs`.
    pub path: String,
    pub module: Module,
    pub text: String,
    /// What it names with `use`.
    uses: Vec<Module>,
    /// Every path of two names or more, also those after `use`.
    paths: Vec<Module>,
}

impl File {
    /// Reads the text of a file, without comments, literals, and the module of tests at its end.
    pub fn new(path: &str, text: &str) -> File {
        let below = path.rsplit_once("src/").unwrap().1.trim_end_matches(".rs");
        let heads = ["mod", "lib", "main"];
        let names = below.split('/').filter(|name| !heads.contains(name));
        let module = names.map(str::to_owned).collect();
        let (path, text) = (path.to_owned(), text.to_owned());
        let mut file = File { path, module, text, uses: Vec::new(), paths: Vec::new() };
        let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        file.scan(code.parse().unwrap(), &[], false);
        file
    }

    /// Collects the paths in this code, which begin with `before`: what stands before the braces.
    fn scan(&mut self, code: TokenStream, before: &[String], mut importing: bool) {
        let mut path = before.to_vec();
        let mut colons = 0;
        for token in code {
            let continues = colons == 2;
            if let TokenTree::Punct(mark) = &token
                && mark.as_char() == ':'
            {
                colons += 1;
                continue;
            }
            colons = 0;
            if !continues {
                self.keep(&mut path, before, importing);
            }
            match token {
                TokenTree::Ident(word) if word == "use" => importing = true,
                TokenTree::Ident(name) => path.push(name.to_string()),
                TokenTree::Group(group) if continues => {
                    self.scan(group.stream(), &path, importing);
                    path = before.to_vec();
                }
                TokenTree::Group(group) => self.scan(group.stream(), &[], false),
                TokenTree::Punct(mark) => importing &= mark.as_char() == ',',
                TokenTree::Literal(_) => {}
            }
        }
        self.keep(&mut path, before, importing);
    }

    /// Ends a path, and begins the next one.
    fn keep(&mut self, path: &mut Module, before: &[String], importing: bool) {
        let mut ended = std::mem::replace(path, before.to_vec());
        if ended.len() > 1 && ended != before {
            ended.truncate(ended.len() - usize::from(ended.ends_with(&["self".to_owned()])));
            self.uses.extend(importing.then(|| ended.clone()));
            self.paths.push(ended);
        }
    }

    /// The modules that each of its imports leads through, the last the one that defines what is
    /// imported. A folder's head exports what stands below it: that is no import.
    pub fn imports(&self, files: &[File]) -> BTreeSet<Vec<Module>> {
        let is_head = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| self.path.ends_with(name));
        let own = |to: &Module| *to == self.module || is_head && to.starts_with(&self.module);
        let ways = self.paths.iter().filter_map(|path| way(files, &self.module, path));
        ways.filter(|way| !way.last().is_some_and(own)).collect()
    }
}

/// Every file below a folder of this repository, but tests.
pub fn crate_in(folder: &str) -> Vec<File> {
    let file = |path: PathBuf| {
        let shown = path.strip_prefix(repository()).unwrap().to_str().unwrap();
        File::new(shown, &read(&path))
    };
    let files = files_in(&repository().join(folder), "rs").into_iter().map(file);
    files.filter(|file| file.module.last().is_none_or(|last| last != "tests")).collect()
}

/// Nothing for other crates.
fn way(files: &[File], from: &[String], path: &[String]) -> Option<Vec<Module>> {
    let mut at = from.to_vec();
    for (place, name) in path.iter().enumerate() {
        let below: Module = at.iter().chain([name]).cloned().collect();
        match name.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ if files.iter().any(|file| file.module == below) => at = below,
            _ => {
                let here = files.iter().filter(|file| file.module == at);
                let mut uses = here.flat_map(|file| &file.uses);
                let export = uses.find(|it| it.last() == Some(name) && it.first() != Some(name));
                let Some(export) = export.cloned() else {
                    return (place > 0).then(|| vec![at.clone()]);
                };
                let target: Module = export.iter().chain(&path[place + 1..]).cloned().collect();
                // What another crate defines, this file exports.
                let Some(further) = way(files, &at, &target) else { return (place > 0).then(|| vec![at.clone()]) };
                return Some([at.clone()].into_iter().chain(further).collect());
            }
        }
    }
    Some(vec![at])
}

/// The imports by which files import each other, directly or not.
pub fn circles(files: &[File]) -> BTreeSet<(Module, Module)> {
    let arrows = |file: &File| {
        let from = file.module.clone();
        let targets = file.imports(files).into_iter().filter_map(|mut way| way.pop());
        targets.map(move |to| (from.clone(), to)).collect::<Vec<_>>()
    };
    let mut arrows: BTreeSet<_> = files.iter().flat_map(arrows).collect();
    loop {
        let (from, to): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().cloned().unzip();
        let before = arrows.len();
        arrows.retain(|arrow| to.contains(&arrow.0) && from.contains(&arrow.1));
        if arrows.len() == before {
            return arrows;
        }
    }
}
