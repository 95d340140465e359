//! Pictures of a flow: Mermaid text and SVG.
//!
//! Decides how steps and the ways between them are drawn, and that no text of theirs can be
//! anything but text in the picture. What the steps are and how they stand is filled in by the
//! caller. Pure: the same graph gives the same bytes.

mod columns;
mod layout;
mod lettering;
mod mermaid;
mod order;
mod palette;
mod routes;
mod svg;
#[cfg(test)]
mod tests;

/// A flow as it is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowGraph {
    /// What stands above the picture.
    pub title: String,
    /// The steps, in the order of the flow file.
    pub nodes: Vec<GraphNode>,
    /// The ways between them; one that names no node of the graph is not drawn.
    pub edges: Vec<GraphEdge>,
}

/// One step in the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphNode {
    /// The step's name, on the first line.
    pub id: String,
    /// What the step does, on the second line.
    pub label: String,
    /// What kind of step it is.
    pub shape: NodeShape,
    /// How the step stands.
    pub mark: NodeMark,
    /// More about how it stands, such as `iteration 2 of 4`.
    pub detail: Option<String>,
}

/// What kind of step a node shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeShape {
    /// A call of one agent.
    Agent,
    /// A whole session.
    Session,
    /// A question to a person.
    Approval,
    /// A step that the flow does by itself.
    BuiltIn,
}

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeMark {
    /// Nothing is said: the flow is drawn, not a run of it.
    Plain,
    /// It waits for what it needs.
    Waiting,
    /// It is being carried out.
    Running,
    /// A person is asked.
    Asked,
    /// It ended well.
    Done,
    /// Its condition did not hold.
    Skipped,
    /// It ended badly.
    Failed,
    /// Its bound was reached before it ended well.
    Exhausted,
}

/// A way from one step to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphEdge {
    /// The place in `nodes` of the step it leaves.
    pub from: usize,
    /// The place in `nodes` of the step it leads to.
    pub to: usize,
    /// Why the flow goes this way.
    pub kind: EdgeKind,
    /// What stands beside it, such as a condition.
    pub label: Option<String>,
}

/// Why the flow goes from one step to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// The second step needs the first.
    Needs,
    /// The first step asks for another round.
    Retry,
    /// A person said no.
    Refused,
}

impl FlowGraph {
    /// The flow as a Mermaid flowchart.
    #[must_use]
    pub fn mermaid(&self) -> String {
        mermaid::write(self)
    }

    /// The flow as an SVG file that needs nothing else.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::write(self)
    }

    /// The edges whose two ends are there, each with its place in `edges`.
    fn drawn(&self) -> impl Iterator<Item = (usize, &GraphEdge)> {
        let within = |edge: &GraphEdge| edge.from.max(edge.to) < self.nodes.len();
        self.edges.iter().enumerate().filter(move |(_, edge)| within(edge))
    }
}

impl NodeMark {
    /// Every mark, in the order of a legend.
    const ALL: [Self; 8] = [
        Self::Plain,
        Self::Waiting,
        Self::Running,
        Self::Asked,
        Self::Done,
        Self::Skipped,
        Self::Failed,
        Self::Exhausted,
    ];

    /// The mark in a word, which also names its class in both pictures.
    fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Asked => "asked",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
        }
    }
}

impl GraphEdge {
    /// What stands beside the edge; a way back is never without a word.
    fn wording(&self) -> String {
        match (self.label.as_deref().map(lettering::shown), self.kind) {
            (Some(label), _) if !label.is_empty() => label,
            (_, EdgeKind::Needs) => String::new(),
            (_, EdgeKind::Retry) => "retry".to_owned(),
            (_, EdgeKind::Refused) => "refused".to_owned(),
        }
    }
}
