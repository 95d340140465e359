//! A flow as an SVG file.
//!
//! Decides what is drawn in a box, the colours and the legend. The file holds no script, no font
//! and no reference to anything outside it; every text of a flow goes through one escape.

use super::layout::{BoxSize, Corner, MARGIN, place, tenths};
use super::lettering::{Letters, shown};
use super::palette::style_sheet;
use super::{EdgeKind, FlowGraph, GraphNode, NodeMark, NodeShape};

const BOX_WIDTH_MIN: f64 = 120.0;
const BOX_WIDTH_MAX: f64 = 220.0;
/// Room beside the text in a box: for the mark, and for an approval's round ends.
const BOX_SIDE: f64 = 30.0;
const BOX_LINE: f64 = 17.0;
const HEADING: f64 = 40.0;
const LEGEND: f64 = 26.0;
/// A heading may make the picture this wide.
const HEADING_WIDTH_MAX: f64 = 640.0;

pub(super) fn write(graph: &FlowGraph) -> String {
    let title = shown(&graph.title);
    let lettering: Vec<Vec<Line>> = graph.nodes.iter().map(Line::of).collect();
    let size = box_size(&lettering);
    let round = |node: usize, down: f64| inset(graph.nodes.get(node), size, down);
    let top = MARGIN + if title.is_empty() { 0.0 } else { HEADING };
    let drawing = place(graph, size, top, round);
    let heading = Letters::HEADING.cut(&title, HEADING_WIDTH_MAX);
    let width = drawing.width.max((Letters::HEADING.width(&heading) + 2.0 * MARGIN).ceil());
    let (legend, height) = legend(graph, width, drawing.height.max(top));

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"countersign-flow\" role=\"img\" \
         viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <title>{}</title>\n<style>\n{}</style>\n",
        if title.is_empty() { "flow".to_owned() } else { escaped(&title) },
        style_sheet(),
    );
    out.push_str(&definitions(size));
    out.push_str(&format!("<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n"));
    if !heading.is_empty() {
        let y = MARGIN + Letters::HEADING.size;
        out.push_str(&text("heading", MARGIN, y, &heading));
        out.push('\n');
    }
    for route in &drawing.routes {
        let Some(edge) = graph.edges.get(route.edge) else { continue };
        let class = match edge.kind {
            EdgeKind::Needs => "needs",
            EdgeKind::Retry => "retry",
            EdgeKind::Refused => "refused",
        };
        let name =
            |node: usize| graph.nodes.get(node).map_or(String::new(), |node| shown(&node.id));
        let words = edge.wording();
        let words = if words.is_empty() { words } else { format!(": {words}") };
        let about = format!("{} → {}{words}", name(edge.from), name(edge.to));
        out.push_str(&format!(
            "<path class=\"edge {class}\" d=\"{}\" marker-end=\"url(#countersign-{class})\">\
             <title>{}</title></path>\n",
            route.path,
            escaped(&about),
        ));
    }
    for sign in &drawing.signs {
        let class = if sign.centred { "sign centred" } else { "sign" };
        out.push_str(&text(class, sign.x, sign.y, &sign.text));
        out.push('\n');
    }
    for ((node, lines), corner) in graph.nodes.iter().zip(&lettering).zip(&drawing.boxes) {
        out.push_str(&draw_node(node, lines, *corner, size));
    }
    out.push_str(&legend);
    out.push_str("</svg>\n");
    out
}

/// A line of text in a box.
struct Line {
    class: &'static str,
    letters: Letters,
    text: String,
}

impl Line {
    fn of(node: &GraphNode) -> Vec<Self> {
        let detail = node.detail.as_deref().unwrap_or_default();
        let lines = [
            ("name", Letters::NAME, shown(&node.id)),
            ("label", Letters::LABEL, shown(&node.label)),
            ("detail", Letters::SMALL, shown(detail)),
        ];
        lines
            .into_iter()
            .filter(|(_, _, text)| !text.is_empty())
            .map(|(class, letters, text)| Self { class, letters, text })
            .collect()
    }
}

/// The size of all boxes: wide enough for the widest text within bounds, high enough for the most
/// lines.
fn box_size(lettering: &[Vec<Line>]) -> BoxSize {
    let widths = lettering.iter().flatten().map(|line| line.letters.width(&line.text));
    let widest = widths.fold(0.0, f64::max) + 2.0 * BOX_SIDE;
    let lines = lettering.iter().map(Vec::len).max().unwrap_or(0).max(2) as f64;
    // An even width keeps the middle of a box on a whole pixel.
    let width = (widest.clamp(BOX_WIDTH_MIN, BOX_WIDTH_MAX) / 2.0).ceil() * 2.0;
    BoxSize { width, height: lines * BOX_LINE + 18.0 }
}

/// How far inside its right side the border of a box is, `down` from its upper border.
fn inset(node: Option<&GraphNode>, size: BoxSize, down: f64) -> f64 {
    match node.map(|node| node.shape) {
        Some(NodeShape::Approval) => {
            let radius = size.height / 2.0;
            let away = down - radius;
            radius - (radius * radius - away * away).max(0.0).sqrt()
        }
        _ => 0.0,
    }
}

fn draw_node(node: &GraphNode, lines: &[Line], corner: Corner, size: BoxSize) -> String {
    let BoxSize { width, height } = size;
    let class = node.mark.word();
    let mut about: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    if node.mark != NodeMark::Plain {
        about.push(class);
    }
    let radius = match node.shape {
        NodeShape::Agent => 8.0,
        NodeShape::Session => 3.0,
        NodeShape::Approval => height / 2.0,
        NodeShape::BuiltIn => 0.0,
    };
    let mut out = format!(
        "<g class=\"node {class}\" transform=\"translate({} {})\"><title>{}</title>\
         <rect class=\"box\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>",
        corner.x,
        corner.y,
        escaped(&about.join("\n")),
    );
    if node.shape == NodeShape::Session {
        let right = width - 5.0;
        out.push_str(&format!("<path class=\"rule\" d=\"M5 0V{height}M{right} 0V{height}\"/>"));
    }
    out.push_str(&badge(node.mark, 17.0, height / 2.0));
    out.push_str("<g clip-path=\"url(#countersign-box)\">");
    let mut y = (height - lines.len() as f64 * BOX_LINE) / 2.0 + 12.5;
    for line in lines {
        let cut = line.letters.cut(&line.text, width - 2.0 * BOX_SIDE);
        out.push_str(&text(line.class, width / 2.0, y, &cut));
        y += BOX_LINE;
    }
    out.push_str("</g></g>\n");
    out
}

/// A mark as a sign that is told from the others without its colour.
fn badge(mark: NodeMark, x: f64, y: f64) -> String {
    let lines = match mark {
        NodeMark::Plain => return String::new(),
        NodeMark::Waiting => "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        NodeMark::Running => "M-3 -4.5L4.5 0L-3 4.5Z",
        NodeMark::Asked => "M-2.5 -2.5a2.5 2.5 0 1 1 3.8 2.1q-1.3 .8 -1.3 2.2M0 4.6v.4",
        NodeMark::Done => "M-4.5 0.5L-1.5 3.5L4.5 -3.5",
        NodeMark::Skipped => "M-4.5 0H4.5",
        NodeMark::Failed => "M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5",
        NodeMark::Exhausted => "M-4 -5H4L-4 5H4Z",
    };
    let (x, y) = (tenths(x), tenths(y));
    format!("<path class=\"badge\" transform=\"translate({x} {y})\" d=\"{lines}\"/>")
}

/// The marks that occur with their words, below `top`, and where the picture ends.
fn legend(graph: &FlowGraph, width: f64, top: f64) -> (String, f64) {
    let occurs = |mark: &NodeMark| graph.nodes.iter().any(|node| node.mark == *mark);
    let marks: Vec<NodeMark> =
        NodeMark::ALL.into_iter().filter(|mark| *mark != NodeMark::Plain && occurs(mark)).collect();
    if marks.is_empty() {
        return (String::new(), top);
    }
    let mut out = String::from("<g class=\"legend\">\n");
    let (mut x, mut y) = (MARGIN, top);
    for mark in marks {
        let word = mark.word();
        let room = 30.0 + Letters::SMALL.width(word);
        if x > MARGIN && x + room > width - MARGIN {
            (x, y) = (MARGIN, y + LEGEND);
        }
        out.push_str(&format!(
            "<g class=\"node {word}\" transform=\"translate({} {y})\">\
             <rect class=\"swatch\" width=\"22\" height=\"18\" rx=\"4\"/>{}{}</g>\n",
            tenths(x),
            badge(mark, 11.0, 9.0),
            text("word", 28.0, 13.0, word),
        ));
        x += room + 18.0;
    }
    out.push_str("</g>\n");
    (out, y + 18.0 + MARGIN)
}

fn definitions(size: BoxSize) -> String {
    let mut out = String::from("<defs>\n");
    for class in ["needs", "retry", "refused"] {
        out.push_str(&format!(
            "<marker id=\"countersign-{class}\" class=\"head {class}\" viewBox=\"0 0 10 8\" \
             refX=\"9.5\" refY=\"4\" markerWidth=\"10\" markerHeight=\"8\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L10 4L0 8Z\"/></marker>\n"
        ));
    }
    // The estimate of a text's width can be wrong; what is too wide ends at its box.
    let (side, width) = (BOX_SIDE - 6.0, size.width - 2.0 * (BOX_SIDE - 6.0));
    out.push_str(&format!(
        "<clipPath id=\"countersign-box\"><rect x=\"{side}\" width=\"{width}\" \
         height=\"{}\"/></clipPath>\n</defs>\n",
        size.height
    ));
    out
}

fn text(class: &str, x: f64, y: f64, words: &str) -> String {
    let (x, y) = (tenths(x), tenths(y));
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(words))
}

/// `text` for within an element or an attribute. What XML cannot hold at all was replaced before.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
    out
}
