//! A flow as Mermaid text.
//!
//! Decides shapes, lines and classes, and how text is written so that it stays text: names are our
//! own, and whatever Mermaid, Markdown or HTML could read something into is an entity code.

use super::lettering::{cut_to, shown};
use super::palette::{Tint, light};
use super::{EdgeKind, FlowGraph, GraphNode, NodeMark, NodeShape};

/// Mermaid refuses long diagrams; the whole text stands in the flow.
const LINE_CHARACTERS_MAX: usize = 60;

pub(super) fn write(graph: &FlowGraph) -> String {
    let mut out = String::new();
    let title = shown(&graph.title);
    if !title.is_empty() {
        out.push_str(&format!("---\ntitle: {}\n---\n", heading(&title)));
    }
    out.push_str("flowchart TD\n");
    for (number, node) in graph.nodes.iter().enumerate() {
        let (open, close) = match node.shape {
            NodeShape::Agent => ("(", ")"),
            NodeShape::Session => ("[[", "]]"),
            NodeShape::Approval => ("([", "])"),
            NodeShape::BuiltIn => ("[", "]"),
        };
        out.push_str(&format!("    n{number}{open}\"{}\"{close}\n", lines(node)));
    }
    let mut refusals: Vec<String> = Vec::new();
    for (place, (_, edge)) in graph.drawn().enumerate() {
        let arrow = match edge.kind {
            EdgeKind::Needs => "-->",
            EdgeKind::Retry => "-.->",
            EdgeKind::Refused => {
                refusals.push(place.to_string());
                "-.->"
            }
        };
        let words = quoted(&edge.wording());
        let label = if words.is_empty() { String::new() } else { format!("|\"{words}\"|") };
        out.push_str(&format!("    n{} {arrow}{label} n{}\n", edge.from, edge.to));
    }
    if !refusals.is_empty() {
        out.push_str(&format!("    linkStyle {} stroke:#b3372c\n", refusals.join(",")));
    }
    for mark in NodeMark::ALL {
        let marked: Vec<String> = (graph.nodes.iter().enumerate())
            .filter(|(_, node)| node.mark == mark)
            .map(|(number, _)| format!("n{number}"))
            .collect();
        if let (Some(style), false) = (style(mark), marked.is_empty()) {
            let word = mark.word();
            out.push_str(&format!("    classDef {word} {style}\n"));
            out.push_str(&format!("    class {} {word}\n", marked.join(",")));
        }
    }
    out
}

/// The lines in a node's box. The mark is among them, for who does not see colours.
fn lines(node: &GraphNode) -> String {
    let mut lines = vec![quoted(&shown(&node.id)), quoted(&shown(&node.label))];
    let detail = node.detail.as_deref().map(shown).unwrap_or_default();
    lines.push(quoted(&match (node.mark, detail.is_empty()) {
        (NodeMark::Plain, _) => detail,
        (mark, true) => mark.word().to_owned(),
        (mark, false) => format!("{}, {detail}", mark.word()),
    }));
    lines.retain(|line| !line.is_empty());
    lines.join("<br/>")
}

/// `text` for within a quoted label.
fn quoted(text: &str) -> String {
    // Mermaid reads formulas and icons after it has resolved entity codes: a space keeps them
    // apart.
    let apart = text.replace("$$", "$ $").replace("$$", "$ $").replace(":fa-", ": fa-");
    let cut = cut_to(&apart, LINE_CHARACTERS_MAX);
    let mut out = String::new();
    let mut characters = cut.chars().peekable();
    let mut after_letter = false;
    while let Some(character) = characters.next() {
        let before_letter = characters.peek().is_some_and(char::is_ascii_alphanumeric);
        match character {
            ' ' | ',' => out.push(character),
            ':' if !before_letter => out.push(character),
            // Between letters these are neither a list nor emphasis.
            '-' | '_' if after_letter && before_letter => out.push(character),
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            _ if character.is_ascii_alphanumeric() || !character.is_ascii() => out.push(character),
            _ => out.push_str(&format!("#{};", u32::from(character))),
        }
        after_letter = character.is_ascii_alphanumeric();
    }
    out
}

/// `text` as a string in the front matter, which is YAML. Mermaid resolves no entity codes there
/// but drops what looks like HTML, so that pointed brackets take another form.
fn heading(text: &str) -> String {
    let mut out = String::from('"');
    for character in cut_to(text, LINE_CHARACTERS_MAX).chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '<' => out.push('‹'),
            '>' => out.push('›'),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

fn style(mark: NodeMark) -> Option<String> {
    let Tint { ground, line, letters } = light(mark);
    let dashes = if mark == NodeMark::Skipped { ",stroke-dasharray:5 4" } else { "" };
    let style = format!("fill:{ground},stroke:{line},color:{letters}{dashes}");
    (mark != NodeMark::Plain).then_some(style)
}
