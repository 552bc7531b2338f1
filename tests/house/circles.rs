//! Files that import each other.

use std::collections::BTreeSet;

use crate::paths::imports;
use crate::source::File;

/// Every largest set of files of which each imports each other, directly or not.
pub fn circles(files: &[File]) -> Vec<Vec<String>> {
    let mut reaches = vec![vec![false; files.len()]; files.len()];
    for (from, reached) in reaches.iter_mut().enumerate() {
        imports(files, from).iter().for_each(|import| reached[import.file] = true);
    }
    for through in 0..files.len() {
        let further = reaches[through].clone();
        for reached in reaches.iter_mut().filter(|reached| reached[through]) {
            reached.iter_mut().zip(&further).for_each(|(here, there)| *here |= there);
        }
    }
    let circle = |of: usize| -> Vec<String> {
        let others = (0..files.len()).filter(|other| reaches[of][*other] && reaches[*other][of]);
        others.map(|other| files[other].path.clone()).collect()
    };
    let mut found: Vec<_> = (0..files.len()).map(circle).filter(|c| c.len() > 1).collect();
    found.sort();
    found.dedup();
    found
}

/// The imports that make these circles, one in each line.
pub fn arrows(files: &[File], circle: &[String]) -> Vec<String> {
    let within = |at: &usize| circle.contains(&files[*at].path);
    let arrows = (0..files.len()).filter(within).flat_map(|from| {
        let targets: BTreeSet<usize> = imports(files, from).iter().map(|i| i.file).collect();
        let arrow = move |to: usize| format!("{} imports {}", files[from].path, files[to].path);
        targets.into_iter().filter(within).map(arrow)
    });
    arrows.collect()
}
