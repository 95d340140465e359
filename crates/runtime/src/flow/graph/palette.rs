//! The colours of both pictures.
//!
//! Decides one set for light and one for dark surroundings. Letters stand out from their ground by
//! a contrast of at least 4.5 in both.

use super::NodeMark;

/// The colours of a box, or of a line with the paper as its ground.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tint {
    pub(super) ground: &'static str,
    pub(super) line: &'static str,
    pub(super) letters: &'static str,
}

/// The colours of one kind of surroundings.
#[derive(Debug, Clone, Copy)]
struct Palette {
    paper: &'static str,
    letters: &'static str,
    muted: &'static str,
    edge: &'static str,
    retry: &'static str,
    refused: &'static str,
    tint: fn(NodeMark) -> Tint,
}

const LIGHT: Palette = Palette {
    paper: "#ffffff",
    letters: "#1f2328",
    muted: "#57606a",
    edge: "#6b7683",
    retry: "#2563c4",
    refused: "#b3372c",
    tint: light,
};

const DARK: Palette = Palette {
    paper: "#14181d",
    letters: "#e6eaee",
    muted: "#a3adb8",
    edge: "#8a95a1",
    retry: "#7fb0ff",
    refused: "#ff8d80",
    tint: dark,
};

/// What does not depend on the surroundings. Everything is below one class, so that a page which
/// takes the picture in keeps its own style.
const SHAPES: &str = "\
.countersign-flow text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, \
'Helvetica Neue', Arial, sans-serif; }
.countersign-flow .heading { font-size: 16px; font-weight: 600; }
.countersign-flow .name { font-size: 13px; font-weight: 600; text-anchor: middle; }
.countersign-flow .label { font-size: 12px; text-anchor: middle; }
.countersign-flow .detail { font-size: 11px; text-anchor: middle; }
.countersign-flow .word { font-size: 11px; }
.countersign-flow .sign { font-size: 11px; paint-order: stroke; stroke-width: 5px; \
stroke-linejoin: round; }
.countersign-flow .centred { text-anchor: middle; }
.countersign-flow .edge { fill: none; stroke-width: 1.5px; }
.countersign-flow .edge.retry, .countersign-flow .edge.refused { stroke-dasharray: 5 4; }
.countersign-flow .box, .countersign-flow .swatch { stroke-width: 1.5px; }
.countersign-flow .rule { fill: none; stroke-width: 1px; }
.countersign-flow .badge { fill: none; stroke-width: 1.8px; stroke-linecap: round; \
stroke-linejoin: round; }
.countersign-flow .skipped .box, .countersign-flow .skipped .swatch { stroke-dasharray: 5 4; }
";

/// The style sheet of the SVG file.
pub(super) fn style_sheet() -> String {
    format!("{SHAPES}{}@media (prefers-color-scheme: dark) {{\n{}}}\n", LIGHT.rules(), DARK.rules())
}

/// The colours of a box on a light ground.
pub(super) fn light(mark: NodeMark) -> Tint {
    let (ground, line, letters) = match mark {
        NodeMark::Plain => ("#f3f5f8", "#7d8996", "#1f2328"),
        NodeMark::Waiting => ("#ffffff", "#9aa4af", "#4b5560"),
        NodeMark::Running => ("#deebff", "#2563c4", "#12294d"),
        NodeMark::Asked => ("#fff1cc", "#a86a00", "#402a00"),
        NodeMark::Done => ("#ddf3e3", "#2a8047", "#0f3320"),
        NodeMark::Skipped => ("#f6f7f8", "#9aa4af", "#57606a"),
        NodeMark::Failed => ("#fde3e0", "#b3372c", "#4d120d"),
        NodeMark::Exhausted => ("#f0e4f9", "#7d43a8", "#341650"),
    };
    Tint { ground, line, letters }
}

/// The colours of a box on a dark ground.
pub(super) fn dark(mark: NodeMark) -> Tint {
    let (ground, line, letters) = match mark {
        NodeMark::Plain => ("#232a32", "#78848f", "#e6eaee"),
        NodeMark::Waiting => ("#181d23", "#5d6874", "#b4bdc6"),
        NodeMark::Running => ("#16305a", "#6ea3f7", "#dce9ff"),
        NodeMark::Asked => ("#443208", "#dba63a", "#ffefc9"),
        NodeMark::Done => ("#143824", "#57b878", "#d5f5df"),
        NodeMark::Skipped => ("#1b2026", "#5d6874", "#98a2ad"),
        NodeMark::Failed => ("#4a1a17", "#f07b6e", "#ffe0dc"),
        NodeMark::Exhausted => ("#37214a", "#b98ae0", "#f0e1fc"),
    };
    Tint { ground, line, letters }
}

impl Palette {
    fn rules(&self) -> String {
        let Self { paper, letters, muted, edge, retry, refused, tint } = self;
        let mut out = format!(
            ".countersign-flow .paper {{ fill: {paper}; }}\n\
             .countersign-flow .heading {{ fill: {letters}; }}\n\
             .countersign-flow .sign {{ fill: {muted}; stroke: {paper}; }}\n"
        );
        for (kind, colour) in [("needs", edge), ("retry", retry), ("refused", refused)] {
            out.push_str(&format!(
                ".countersign-flow .edge.{kind} {{ stroke: {colour}; }}\n\
                 .countersign-flow .head.{kind} {{ fill: {colour}; }}\n"
            ));
        }
        for mark in NodeMark::ALL {
            let (word, Tint { ground, line, letters }) = (mark.word(), tint(mark));
            out.push_str(&format!(
                ".countersign-flow .{word} .box, .countersign-flow .{word} .swatch \
                 {{ fill: {ground}; stroke: {line}; }}\n\
                 .countersign-flow .{word} .badge, .countersign-flow .{word} .rule \
                 {{ stroke: {line}; }}\n\
                 .countersign-flow .{word} text {{ fill: {letters}; }}\n"
            ));
        }
        out.push_str(&format!(".countersign-flow .legend .word {{ fill: {muted}; }}\n"));
        out
    }
}
