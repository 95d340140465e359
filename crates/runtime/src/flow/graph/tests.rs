use proptest::prelude::*;

use super::order::{Order, WAYPOINTS_MAX, WAYPOINTS_PER_PART};
use super::*;

fn node(id: &str, label: &str, shape: NodeShape, mark: NodeMark) -> GraphNode {
    GraphNode { id: id.to_owned(), label: label.to_owned(), shape, mark, detail: None }
}

fn plain(id: &str) -> GraphNode {
    node(id, "agent: act", NodeShape::Agent, NodeMark::Plain)
}

fn edge(from: usize, to: usize, kind: EdgeKind) -> GraphEdge {
    GraphEdge { from, to, kind, label: None }
}

fn needs(from: usize, to: usize) -> GraphEdge {
    edge(from, to, EdgeKind::Needs)
}

fn graph(nodes: Vec<GraphNode>, edges: Vec<GraphEdge>) -> FlowGraph {
    FlowGraph { title: "flow".to_owned(), nodes, edges }
}

fn loop_with_approval() -> FlowGraph {
    let mut validate = node("validate", "checker: validate", NodeShape::Agent, NodeMark::Running);
    validate.detail = Some("iteration 2 of 4".to_owned());
    let mut proceed = needs(1, 2);
    proceed.label = Some("recommendation = \"proceed\"".to_owned());
    let mut retry = edge(1, 0, EdgeKind::Retry);
    retry.label = Some("retry, at most 4".to_owned());
    FlowGraph {
        title: "specify \"login\"".to_owned(),
        nodes: vec![
            node("specify", "writer: create", NodeShape::Agent, NodeMark::Done),
            validate,
            node("approve", "release this?", NodeShape::Approval, NodeMark::Waiting),
        ],
        edges: vec![needs(0, 1), retry, proceed, edge(2, 0, EdgeKind::Refused)],
    }
}

#[test]
fn a_loop_with_an_approval_is_written_as_mermaid() {
    let expected = r##"---
title: "specify \"login\""
---
flowchart TD
    n0("specify<br/>writer: create<br/>done")
    n1("validate<br/>checker: validate<br/>running, iteration 2 of 4")
    n2(["approve<br/>release this#63;<br/>waiting"])
    n0 --> n1
    n1 -.->|"retry, at most 4"| n0
    n1 -->|"recommendation #61; #quot;proceed#quot;"| n2
    n2 -.->|"refused"| n0
    linkStyle 3 stroke:#b3372c
    classDef waiting fill:#ffffff,stroke:#9aa4af,color:#4b5560
    class n2 waiting
    classDef running fill:#deebff,stroke:#2563c4,color:#12294d
    class n1 running
    classDef done fill:#ddf3e3,stroke:#2a8047,color:#0f3320
    class n0 done
"##;
    assert_eq!(loop_with_approval().mermaid(), expected);
}

#[test]
fn hostile_text_stays_within_its_mermaid_label() {
    let hostile = "\"]; `**b**`\n<b>&#lt;[1. x]</b>";
    let mut flow = graph(
        vec![
            node(hostile, "$$$x$$ fa:fa-user", NodeShape::Session, NodeMark::Plain),
            node("\u{202e}end\u{1b}", &"w".repeat(10_000), NodeShape::BuiltIn, NodeMark::Plain),
        ],
        vec![needs(0, 1)],
    );
    flow.title = "\"\nconfig: {}\\<b>".to_owned();
    flow.edges[0].label = Some("a|\"b\"|-->".to_owned());
    let expected = format!(
        r##"---
title: "\" config: {{}}\\‹b›"
---
flowchart TD
    n0[["{}<br/>#36; #36; #36;x#36; #36; fa: fa-user"]]
    n1["#92;u#123;202e#125;end#92;u#123;1b#125;<br/>{}…"]
    n0 -->|"a#124;#quot;b#quot;#124;#45;#45;#gt;"| n1
"##,
        "#quot;#93;#59; #96;#42;#42;b#42;#42;#96; \
         #lt;b#gt;#amp;#35;lt#59;#91;1#46; x#93;#lt;#47;b#gt;",
        "w".repeat(59)
    );
    assert_eq!(flow.mermaid(), expected);
}

#[test]
fn hostile_text_stays_text_in_svg() {
    let long = "long ".repeat(2_000);
    let hostile = [
        "</text><script>alert(1)</script>",
        "]]>",
        "\u{0}\u{7}\u{1b}[2J\r\n\u{7f}\u{85}\u{fffe}",
        "\u{200f}\u{202e}abc\u{2066}",
        "\" onload=\"alert(1)' x='&amp;&#60;",
        "<!-- <![CDATA[ <?xml ?>",
        long.as_str(),
    ];
    for text in hostile {
        let mut one = node(text, text, NodeShape::Approval, NodeMark::Asked);
        one.detail = Some(text.to_owned());
        let mut flow = graph(vec![one, plain("next")], vec![needs(0, 1), needs(0, 0)]);
        flow.title = text.to_owned();
        flow.edges[0].label = Some(text.to_owned());
        flow.edges[1].label = Some(text.to_owned());
        let svg = flow.svg();
        let elements = elements(&svg);
        let allowed =
            ["svg", "title", "style", "defs", "marker", "clipPath", "path", "rect", "text", "g"];
        let others: Vec<&Element> =
            elements.iter().filter(|element| !allowed.contains(&element.name.as_str())).collect();
        assert_eq!(others, Vec::<&Element>::new(), "{text:?}");
        let shown = lettering::shown(text);
        let whole = format!("{shown}\n{shown}\n{shown}\nasked");
        assert!(elements.iter().any(|one| one.name == "title" && one.text == whole), "{text:?}");
        let longest = elements.iter().filter(|one| one.name == "text").map(|one| one.text.chars());
        assert!(longest.map(Iterator::count).max() < Some(120), "{text:?}");
    }
}

#[test]
fn the_svg_needs_nothing_else() {
    let svg = loop_with_approval().svg();
    let elements = elements(&svg);
    assert_eq!(elements[0].attribute("role"), "img");
    assert_eq!(
        (elements[1].name.as_str(), elements[1].text.as_str()),
        ("title", "specify \"login\"")
    );
    assert!(svg.contains("@media (prefers-color-scheme: dark)"));
    for outside in ["href", "@import", "script", "url(h", "font-face"] {
        assert!(!svg.contains(outside), "{outside}");
    }
}

#[test]
fn the_legend_has_the_marks_that_occur() {
    let words = |flow: &FlowGraph| -> Vec<String> {
        let svg = flow.svg();
        let words = elements(&svg).into_iter().filter(|one| one.attribute("class") == "word");
        words.map(|element| element.text).collect()
    };
    assert_eq!(words(&loop_with_approval()), ["waiting", "running", "done"]);
    assert_eq!(words(&graph(vec![plain("one")], Vec::new())), Vec::<String>::new());
    let all = NodeMark::ALL.map(|mark| node("one", "", NodeShape::Agent, mark));
    let expected = ["waiting", "running", "asked", "done", "skipped", "failed", "exhausted"];
    assert_eq!(words(&graph(all.to_vec(), Vec::new())), expected);
}

/// The contrast of two colours, from 1 to 21, by how light the eye finds them.
fn contrast(one: &str, other: &str) -> f64 {
    let light = |colour: &str| -> f64 {
        let parts = [(1, 0.2126), (3, 0.7152), (5, 0.0722)];
        let part = |(at, weight): (usize, f64)| {
            let share = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            weight
                * if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        parts.map(part).iter().sum::<f64>() + 0.05
    };
    let (one, other) = (light(one), light(other));
    one.max(other) / one.min(other)
}

#[test]
fn letters_stand_out_in_light_and_dark() {
    for mark in NodeMark::ALL {
        for tint in [palette::light(mark), palette::dark(mark)] {
            let letters = contrast(tint.ground, tint.letters);
            assert!(letters >= 4.5, "{mark:?}: {letters}");
        }
    }
}

#[test]
fn a_condition_of_a_join_is_shown_once() {
    let mut edges = vec![needs(0, 2), needs(1, 2)];
    edges.iter_mut().for_each(|edge| edge.label = Some("all succeeded".to_owned()));
    let svg = graph(vec![plain("a"), plain("b"), plain("c")], edges).svg();
    let signs = elements(&svg).into_iter().filter(|one| one.attribute("class") == "sign centred");
    assert_eq!(signs.map(|sign| sign.text).collect::<Vec<_>>(), ["all succeeded"]);
}

#[test]
fn an_empty_graph_and_edges_to_nowhere_are_drawn() {
    let empty = FlowGraph { title: String::new(), nodes: Vec::new(), edges: vec![needs(0, 1)] };
    assert_eq!(empty.mermaid(), "flowchart TD\n");
    assert_eq!(Picture::of(&empty.svg()).boxes, Vec::new());
    let flow = graph(vec![plain("a")], vec![needs(0, 7), edge(9, 0, EdgeKind::Retry)]);
    assert_eq!(flow.mermaid().lines().count(), 5);
    assert_eq!(Picture::of(&flow.svg()).lines, Vec::<Vec<(f64, f64)>>::new());
}

#[test]
fn steps_that_need_each_other_are_drawn_with_a_way_back() {
    let nodes = vec![plain("a"), plain("b"), plain("c")];
    let flow = graph(nodes, vec![needs(0, 1), needs(1, 2), needs(2, 0), needs(1, 1)]);
    let order = Order::of(&flow);
    let layers: Vec<usize> = order.slots.iter().take(3).map(|slot| slot.layer).collect();
    assert_eq!(layers, [0, 1, 2]);
    let aside: Vec<bool> = order.ways.iter().map(|way| way.aside).collect();
    assert_eq!(aside, [false, false, true, true]);
    Picture::of(&flow.svg()).check(4);
}

#[test]
fn a_chain_is_straight_and_branches_do_not_cross() {
    let mut nodes = vec![plain("start")];
    let mut edges = Vec::new();
    for branch in 0..6 {
        for step in 0..5 {
            let at = nodes.len();
            nodes.push(plain(&format!("b{branch}s{step}")));
            edges.push(needs(if step == 0 { 0 } else { at - 1 }, at));
            if step == 3 {
                edges.push(edge(at, at - 2, EdgeKind::Retry));
            }
        }
    }
    nodes.push(plain("join"));
    edges.extend((1..=6).map(|branch| needs(branch * 5, 31)));
    let flow = graph(nodes, edges);
    assert_eq!(Order::of(&flow).crossings(), 0);
    let picture = Picture::of(&flow.svg());
    picture.check(6 * 6 + 6);
    for branch in picture.boxes[1..31].chunks(5) {
        assert!(branch.iter().all(|one| one.x == branch[0].x), "{branch:?}");
    }
}

#[test]
fn a_thousand_steps_over_a_hundred_branches_take_no_waypoint() {
    let nodes: Vec<GraphNode> = (0..1_000).map(|step| plain(&format!("step {step}"))).collect();
    let edges: Vec<GraphEdge> =
        (0..1_000).filter(|step| step % 10 > 0).map(|step| needs(step - 1, step)).collect();
    let flow = graph(nodes, edges);
    let order = Order::of(&flow);
    let shape = (order.layers.len(), order.slots.len(), order.links.len(), order.crossings());
    assert_eq!(shape, (10, 1_000, 900, 0));
    let picture = Picture::of(&flow.svg());
    assert_eq!((picture.boxes.len(), picture.lines.len()), (1_000, 900));
}

/// Each step needs all before it: without a bound there were more waypoints than the cube of the
/// steps.
#[test]
fn waypoints_stay_in_proportion_and_the_longest_edges_go_without() {
    for steps in [20, 200] {
        let nodes = (0..steps).map(|step| plain(&format!("step {step}"))).collect();
        let edges: Vec<GraphEdge> =
            (0..steps).flat_map(|to| (0..to).map(move |from| needs(from, to))).collect();
        let flow = graph(nodes, edges);
        let order = Order::of(&flow);
        let waypoints = order.slots.len() - steps;
        let parts = steps + flow.edges.len();
        assert!(waypoints <= WAYPOINTS_MAX.min(WAYPOINTS_PER_PART * parts), "{waypoints}");
        assert!(order.links.len() <= flow.edges.len() + waypoints);
        let span = |way: &order::Way| way.to - way.from;
        let led = order.ways.iter().filter(|way| !way.waypoints.is_empty()).map(span).max();
        let direct = order.ways.iter().filter(|way| span(way) > 1 && way.waypoints.is_empty());
        assert!(direct.map(span).min().is_none_or(|shortest| Some(shortest) >= led));
        assert_eq!(Picture::of(&flow.svg()).lines.len(), flow.edges.len());
    }
}

fn any_flow() -> impl Strategy<Value = FlowGraph> {
    let shapes = prop::sample::select(vec![
        NodeShape::Agent,
        NodeShape::Session,
        NodeShape::Approval,
        NodeShape::BuiltIn,
    ]);
    let text = prop::option::of("\\PC{0,30}");
    let nodes = (shapes, prop::sample::select(NodeMark::ALL.to_vec()), ".{0,12}", text.clone());
    let kinds = prop::sample::select(vec![
        EdgeKind::Needs,
        EdgeKind::Needs,
        EdgeKind::Needs,
        EdgeKind::Retry,
        EdgeKind::Refused,
    ]);
    let edges = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), kinds, text);
    let parts = (prop::collection::vec(nodes, 1..16), prop::collection::vec(edges, 0..30));
    parts.prop_map(|(nodes, edges)| {
        let count = nodes.len();
        let nodes = nodes.into_iter().map(|(shape, mark, id, detail)| GraphNode {
            detail,
            ..node(&id, "agent: act", shape, mark)
        });
        let edges = edges.into_iter().map(|(one, other, kind, label)| {
            let (one, other) = (one.index(count), other.index(count));
            let (low, high) = (one.min(other), one.max(other));
            let (from, to) = if kind == EdgeKind::Needs { (low, high) } else { (high, low) };
            GraphEdge { from, to, kind, label }
        });
        graph(nodes.collect(), edges.collect())
    })
}

proptest! {
    #[test]
    fn boxes_keep_apart_and_lines_go_from_border_to_border(flow in any_flow()) {
        let picture = Picture::of(&flow.svg());
        prop_assert_eq!(picture.boxes.len(), flow.nodes.len());
        picture.check(flow.edges.len());
        for (line, edge) in picture.lines.iter().zip(&flow.edges) {
            let ends = [(line.first(), edge.from), (line.last(), edge.to)];
            for (point, node) in ends {
                let depth = picture.boxes[node].depth(*point.unwrap());
                prop_assert!(depth.abs() < 0.6, "{edge:?}: {point:?} is {depth} deep");
            }
        }
        prop_assert_eq!(flow.svg(), flow.svg());
    }
}

/// A box as it is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Drawn {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    radius: f64,
}

impl Drawn {
    /// How far inside the border a point is; negative outside.
    fn depth(&self, (x, y): (f64, f64)) -> f64 {
        let radius = self.radius;
        let (left, right) = (self.x + radius - x, x - (self.x + self.width - radius));
        let (over, under) = (self.y + radius - y, y - (self.y + self.height - radius));
        let (aside, away) = (left.max(right), over.max(under));
        if aside <= 0.0 && away <= 0.0 {
            return radius - aside.max(away);
        }
        radius - aside.max(0.0).hypot(away.max(0.0))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }
}

/// What an SVG file shows, read back from it.
struct Picture {
    width: f64,
    height: f64,
    boxes: Vec<Drawn>,
    /// Points along each edge.
    lines: Vec<Vec<(f64, f64)>>,
}

impl Picture {
    fn of(svg: &str) -> Self {
        let elements = elements(svg);
        let view = numbers(elements[0].attribute("viewBox"));
        let size = (elements[0].number("width"), elements[0].number("height"));
        assert_eq!(view, [0.0, 0.0, size.0, size.1]);
        let mut boxes = Vec::new();
        for (at, element) in elements.iter().enumerate() {
            if element.attribute("class") == "box" {
                let moved = elements[..at].iter().rfind(|one| one.name == "g").unwrap();
                let corner = numbers(moved.attribute("transform"));
                boxes.push(Drawn {
                    x: corner[0],
                    y: corner[1],
                    width: element.number("width"),
                    height: element.number("height"),
                    radius: element.number("rx"),
                });
            }
        }
        let edges = elements.iter().filter(|one| one.attribute("class").starts_with("edge "));
        let lines = edges.map(|edge| points(edge.attribute("d"))).collect();
        Self { width: size.0, height: size.1, boxes, lines }
    }

    fn check(&self, edges: usize) {
        assert_eq!(self.lines.len(), edges);
        for (at, one) in self.boxes.iter().enumerate() {
            assert!(one.x >= 0.0 && one.x + one.width <= self.width, "{one:?}");
            assert!(one.y >= 0.0 && one.y + one.height <= self.height, "{one:?}");
            for other in &self.boxes[..at] {
                assert!(!one.overlaps(other), "{one:?} {other:?}");
            }
        }
        for &(x, y) in self.lines.iter().flatten() {
            let within = (0.0..=self.width).contains(&x) && (0.0..=self.height).contains(&y);
            assert!(within, "({x}, {y}) is outside the picture");
            for one in &self.boxes {
                assert!(one.depth((x, y)) < 1.0, "({x}, {y}) is inside {one:?}");
            }
        }
    }
}

/// The numbers in a text, whatever stands between them.
fn numbers(text: &str) -> Vec<f64> {
    let pieces = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
    pieces.filter(|piece| !piece.is_empty()).map(|piece| piece.parse().unwrap()).collect()
}

/// Points along a path of absolute commands.
fn points(path: &str) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let starts = path.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()).map(|(at, _)| at);
    let starts: Vec<usize> = starts.chain([path.len()]).collect();
    for piece in starts.windows(2) {
        let (command, rest) = path[piece[0]..piece[1]].split_at(1);
        let given = numbers(rest);
        let (x, y) = points.last().copied().unwrap_or_default();
        let controls = match (command, given.as_slice()) {
            ("M", &[x, y]) => vec![(x, y)],
            ("H", &[to]) => vec![(x, y), (to, y)],
            ("V", &[to]) => vec![(x, y), (x, to)],
            ("Q", &[a, b, c, d]) => vec![(x, y), (a, b), (c, d)],
            ("C", &[a, b, c, d, e, f]) => vec![(x, y), (a, b), (c, d), (e, f)],
            other => panic!("{other:?} in {path}"),
        };
        points.extend((0..=24).map(|step| along(&controls, f64::from(step) / 24.0)));
    }
    points
}

/// A point of the curve with these control points.
fn along(controls: &[(f64, f64)], share: f64) -> (f64, f64) {
    let mut left = controls.to_vec();
    while left.len() > 1 {
        let between = |pair: &[(f64, f64)]| {
            let (from, to) = (pair[0], pair[1]);
            (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
        };
        left = left.windows(2).map(between).collect();
    }
    left[0]
}

/// An element, its attributes and the text directly in it.
#[derive(Debug, Clone, Default, PartialEq)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    fn number(&self, name: &str) -> f64 {
        self.attribute(name).parse().unwrap()
    }
}

/// All elements of a file in the order of their start tags; fails on anything that is not plain,
/// well-formed XML.
fn elements(svg: &str) -> Vec<Element> {
    let hidden = svg.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(hidden, None, "a control character in the file");
    let mut found: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = svg.trim_end();
    while !rest.is_empty() {
        let Some(tag) = rest.strip_prefix('<') else {
            let end = rest.find('<').expect("text after the last element");
            let at = *open.last().expect("text outside of the elements");
            found[at].text.push_str(&resolved(&rest[..end]));
            rest = &rest[end..];
            continue;
        };
        let end = tag.find('>').expect("a tag without end");
        let inner = &tag[..end];
        rest = &tag[end + 1..];
        if let Some(name) = inner.strip_prefix('/') {
            let at = open.pop().expect("an end tag too many");
            assert_eq!(found[at].name, name);
            continue;
        }
        let (inner, empty) = inner.strip_suffix('/').map_or((inner, false), |inner| (inner, true));
        let (name, mut attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphabetic()), "{name:?}");
        let mut element = Element { name: name.to_owned(), ..Element::default() };
        while !attributes.is_empty() {
            let (name, value) = attributes.split_once("=\"").expect("an attribute without value");
            let (value, more) = value.split_once('"').expect("a value without end");
            assert!(name.chars().all(|c| c.is_ascii_alphabetic() || c == '-'), "{name:?}");
            assert_eq!(element.attribute(name), "", "{name} twice");
            element.attributes.push((name.to_owned(), resolved(value)));
            attributes = more.strip_prefix(' ').unwrap_or(more);
        }
        assert!(!open.is_empty() || found.is_empty(), "two roots");
        found.push(element);
        if !empty {
            open.push(found.len() - 1);
        }
    }
    assert_eq!(open, Vec::<usize>::new(), "elements without end");
    found
}

/// Text with its entities resolved.
fn resolved(text: &str) -> String {
    assert!(!text.contains(['<', '>']), "{text:?}");
    let mut pieces = text.split('&');
    let mut out = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (entity, rest) = piece.split_once(';').expect("an entity without end");
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("entity {other:?}"),
        });
        out.push_str(rest);
    }
    out
}
