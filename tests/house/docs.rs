//! What the pages promise: links lead somewhere, the tests named exist, and each claim on another system has a source.

use crate::{anchors, files_in, read, repository};

/// The text without what stands in fences.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let keep = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    };
    text.lines().filter(keep).collect::<Vec<_>>().join("\n")
}

#[test]
fn links_between_pages_lead_somewhere() {
    let root = repository();
    let mut all: Vec<_> = ["README.md", "CONTRIBUTING.md", "tests/README.md"].map(|page| root.join(page)).to_vec();
    all.extend(files_in(&root.join("docs"), "md"));
    let mut broken = Vec::new();
    for page in all {
        let text = prose(&read(&page));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = match to.extension() {
                Some(extension) if extension == "md" && to.is_file() && !anchor.is_empty() => {
                    anchors(&prose(&read(&to))).iter().any(|known| known == anchor)
                }
                _ => to.exists(),
            };
            if !there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_tests_that_answer_a_question_exist() {
    let text = read(&repository().join("docs/assurance/faq.md"));
    let (mut file, mut found, mut missing) = (None, 0, Vec::new());
    for code in text.split('`').skip(1).step_by(2) {
        if code.ends_with(".rs") {
            file = Some((code, read(&repository().join(code))));
        } else if code.contains('_') && code.chars().all(|c| c.is_alphanumeric() || c == '_') {
            let (path, source) = file.as_ref().unwrap_or_else(|| panic!("{code}: in which file?"));
            found += 1;
            if !source.contains(&format!("fn {code}(")) {
                missing.push(format!("{path}: {code}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(found > 50, "the page names {found} tests");
}

#[test]
fn every_claim_about_another_system_has_a_source() {
    let text = read(&repository().join("docs/guide/comparison.md"));
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let (mut cells, mut bare) = (0, Vec::new());
    for row in rows.filter(|row| !row.starts_with("| system") && !row.starts_with("| take")) {
        for cell in row.trim_matches('|').split(" | ").skip(1) {
            cells += 1;
            if !cell.contains("](") {
                bare.push(cell);
            }
        }
    }
    assert!(bare.is_empty(), "{bare:#?}");
    assert!(cells > 80, "the page makes {cells} claims");
}
