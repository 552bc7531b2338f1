//! Where a path leads: to the file that defines what it names, through all exports.

use std::collections::BTreeSet;

use crate::source::{File, Module};

/// What a file imports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file that defines it, by its place in the list.
    pub file: usize,
    /// The modules that it is imported through, the first as it is written.
    pub through: Vec<Module>,
}

/// What this file imports from others, as far as it names it. A folder's head exports what
/// stands below it: that is no import.
pub fn imports(files: &[File], of: usize) -> BTreeSet<Import> {
    let file = &files[of];
    let named = file.paths.iter().filter_map(|(module, path)| find(files, module, path, 20));
    let others = named.filter(|import| import.file != of);
    let below =
        |import: &Import| file.is_head() && files[import.file].module.starts_with(&file.module);
    others.filter(|import| !below(import)).collect()
}

/// Nothing for other crates, and for a module as a whole: what is used of it is named later.
fn find(files: &[File], from: &[String], path: &[String], limit: usize) -> Option<Import> {
    let limit = limit.checked_sub(1)?;
    let mut at = from.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        first if is_module(files, &at, first) || is_name(files, &at, first, path) => {}
        _ => return None,
    }
    while let Some(name) = rest.first() {
        if is_module(files, &at, name) {
            at.push(name.clone());
            rest = &rest[1..];
            continue;
        }
        let exported = names(files, &at, name).filter(|export| *export != path);
        if let Some(export) = exported {
            let target: Module = export.iter().chain(&rest[1..]).cloned().collect();
            let mut import = find(files, &at, &target, limit)?;
            if at != from {
                import.through.insert(0, at);
            }
            return Some(import);
        }
        let file = holder(files, &at)?;
        return Some(Import { file, through: vec![at] });
    }
    None
}

fn names<'a>(files: &'a [File], module: &[String], name: &str) -> Option<&'a Module> {
    let key = (module.to_vec(), name.to_owned());
    files.iter().find_map(|file| file.names.get(&key))
}

/// A name that the module has imported, other than by this very path.
fn is_name(files: &[File], module: &[String], name: &str, path: &[String]) -> bool {
    names(files, module, name).is_some_and(|import| import != path)
}

fn is_module(files: &[File], parent: &[String], name: &str) -> bool {
    let is_it = |module: &[String]| {
        module.len() == parent.len() + 1
            && module.starts_with(parent)
            && module.ends_with(&[name.to_owned()])
    };
    files
        .iter()
        .any(|file| is_it(&file.module) || file.paths.iter().any(|(module, _)| is_it(module)))
}

/// The file in which a module stands, also one that is written out within a file.
fn holder(files: &[File], module: &[String]) -> Option<usize> {
    let above = (0..=module.len()).rev().map(|length| &module[..length]);
    above.into_iter().find_map(|above| files.iter().position(|file| file.module == above))
}
