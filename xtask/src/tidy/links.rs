//! Links between the pages of the documentation.

use super::Finding;
use super::tree::{Tree, extension};

/// A page that is linked is there: this also holds README and ARCHITECTURE to the format pages
/// that they promise.
pub(super) fn links_resolve(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_page =
        |path: &str| extension(path) == "md" && (path.starts_with("docs/") || !path.contains('/'));
    for (path, text) in tree.files().filter(|(path, _)| is_page(path)) {
        for (line, target) in links(text) {
            let Some(file) = inside(target) else { continue };
            match resolve(path, file) {
                Some(resolved) if tree.holds(&resolved) => {}
                Some(resolved) => {
                    let message = format!("link to `{target}`: there is no `{resolved}`");
                    found.push(Finding::line(path, line, message));
                }
                None => {
                    let message = format!("link to `{target}` leads out of the repository");
                    found.push(Finding::line(path, line, message));
                }
            }
        }
    }
    found
}

/// The targets of links outside code blocks, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(inline.map(|target| (number, target)));
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        found.extend(definition.map(|(_, target)| (number, target.trim())));
    }
    found
}

/// The path that `target` names, unless it points to the web or into its own page.
fn inside(target: &str) -> Option<&str> {
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    let path = target.split('#').next().unwrap_or_default();
    (!elsewhere && !path.is_empty()).then_some(path)
}

/// `target` as seen from the page at `from`, as a path from the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::says;
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        let files = [
            ("README.md", "one\n[events](docs/formats/events.md) and [x](docs/x.md#there)\n"),
            ("docs/formats/events.md", "[up](../glossary.md)\n[out](../../../elsewhere.md)\n"),
            ("docs/glossary.md", "[root]: ../LICENSE\n"),
        ];
        let expected = [
            "README.md:2: link to `docs/x.md#there`: there is no `docs/x.md`",
            "docs/formats/events.md:2: link to `../../../elsewhere.md` leads out of the repository",
            "docs/glossary.md:1: link to `../LICENSE`: there is no `LICENSE`",
        ];
        assert_eq!(says(links_resolve, &files), expected);
    }

    #[test]
    fn links_to_pages_directories_anchors_and_the_web_pass() {
        let readme = "[f](docs/formats/) [a](#layout) [w](https://example.org/x) [l](LICENSE)\n\
                      ```\n[not](a/link)\n```\n";
        let files = [("README.md", readme), ("docs/formats/json.md", ""), ("LICENSE", "")];
        assert!(says(links_resolve, &files).is_empty());
    }
}
