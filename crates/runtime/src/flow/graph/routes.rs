//! The lines of a drawing and the words beside them.
//!
//! Decides how a line runs once boxes and waypoints have their places: straight through a row, in
//! an S between two rows. Where words would fall on others, fewer are shown.

use std::collections::BTreeMap;

use super::layout::{Draft, Port, Sign, tenths};
use super::lettering::Letters;
use super::order::Way;

/// How far a way aside keeps its bends round.
const BEND: f64 = 8.0;
/// How high a way rises over its row when it leads to a box in the same one.
const RISE: f64 = 22.0;
/// Room for the words of a way aside, and how many of them stand beside one box.
pub(super) const WORDS_ASIDE: f64 = 170.0;
const WORDS_ASIDE_MAX: usize = 4;
const WORDS_LINE: f64 = 14.0;

impl Draft<'_> {
    /// The line from one box's lower border to the upper border of one further down.
    pub(super) fn downwards(&self, way: &Way) -> String {
        let mut line = Line::from(self.x(way.from), self.top(way.from) + self.size.height);
        for &waypoint in &way.waypoints {
            line.sway(self.x(waypoint), self.top(waypoint));
            line.vertical(self.top(waypoint) + self.size.height);
        }
        line.sway(self.x(way.to), self.top(way.to));
        line.path
    }

    /// The line from one box's right border to another's, beside the boxes between them.
    pub(super) fn aside(&self, way: &Way, (leaving, entering): &(Port, Port)) -> String {
        let side = |node: usize| self.x(node) + self.size.width / 2.0;
        let (start, end) = (self.top(way.from) + leaving.down, self.top(way.to) + entering.down);
        let (out, back) = (side(way.from) + leaving.lane, side(way.to) + entering.lane);
        let upwards = self.top(way.from) >= self.top(way.to);
        let turn = if upwards { -BEND } else { BEND };
        let mut line = Line::from(side(way.from) - leaving.inset, start);
        if way.from == way.to {
            let bend = BEND.min((end - start).abs() / 2.0);
            line.corner_out(out, start, bend);
            line.vertical(end - bend);
            line.corner_in(out, end, bend, side(way.to) - entering.inset);
            return line.path;
        }
        line.corner_out(out, start, turn);
        let near = |slot: usize, upwards: bool| {
            self.top(slot) + if upwards { 0.0 } else { self.size.height }
        };
        line.vertical(near(way.from, upwards));
        if self.top(way.from) == self.top(way.to) {
            line.arch(back, self.top(way.to) - RISE);
            line.vertical(end - BEND);
            line.corner_in(back, end, BEND, side(way.to) - entering.inset);
            return line.path;
        }
        for &waypoint in &way.waypoints {
            line.sway(self.x(waypoint), near(waypoint, !upwards));
            line.vertical(near(waypoint, upwards));
        }
        line.sway(back, near(way.to, !upwards));
        line.vertical(end - turn);
        line.corner_in(back, end, turn, side(way.to) - entering.inset);
        line.path
    }

    /// The words beside all lines.
    pub(super) fn signs(&self) -> Vec<Sign> {
        let mut signs = self.signs_aside();
        let mut into: BTreeMap<usize, Vec<&Way>> = BTreeMap::new();
        let mut out_of: BTreeMap<usize, usize> = BTreeMap::new();
        for way in &self.order.ways {
            if !way.aside && !self.words(way.edge).is_empty() {
                into.entry(way.to).or_default().push(way);
                *out_of.entry(way.from).or_default() += 1;
            }
        }
        for (&to, ways) in &into {
            let first = ways.first().map_or("", |way| self.words(way.edge));
            // A condition of a step that needs several stands at the step once.
            if ways.iter().all(|way| self.words(way.edge) == first) {
                signs.push(self.sign_across(self.x(to), self.top(to) - 20.0, first));
                continue;
            }
            for way in ways {
                let from = self.top(way.from) + self.size.height;
                let last = way.waypoints.last().copied().unwrap_or(way.from);
                let (x, y) = if out_of.get(&way.from) == Some(&1) {
                    (self.x(way.from), from + 20.0)
                } else {
                    let left = self.top(last) + self.size.height;
                    let halfway = f64::midpoint(self.x(last), self.x(to));
                    (halfway, f64::midpoint(left, self.top(to)) + 4.0)
                };
                signs.push(self.sign_across(x, y, self.words(way.edge)));
            }
        }
        signs
    }

    /// Words on a line, no wider than the boxes' distance so that two signs in a row keep apart.
    fn sign_across(&self, x: f64, y: f64, words: &str) -> Sign {
        let text = Letters::SMALL.cut(words, self.size.width + 20.0);
        Sign { x: tenths(x), y: tenths(y), centred: true, text }
    }

    /// The words of ways aside, beneath each other right of the box that they leave.
    fn signs_aside(&self) -> Vec<Sign> {
        let mut leaving: BTreeMap<usize, Vec<&Way>> = BTreeMap::new();
        for way in self.order.ways.iter().filter(|way| way.aside) {
            if !self.words(way.edge).is_empty() {
                leaving.entry(way.from).or_default().push(way);
            }
        }
        let mut signs = Vec::new();
        for (&node, ways) in &leaving {
            let shown = ways.len().min(WORDS_ASIDE_MAX);
            let middle = self.top(node) + self.size.height / 2.0 + 4.0;
            let mut y = middle - WORDS_LINE * (shown as f64 - 1.0) / 2.0;
            let x = tenths(self.x(node) + self.words_from(node));
            for way in ways.iter().take(shown) {
                let text = Letters::SMALL.cut(self.words(way.edge), WORDS_ASIDE);
                signs.push(Sign { x, y: tenths(y), centred: false, text });
                y += WORDS_LINE;
            }
        }
        signs
    }
}

/// A line being drawn.
struct Line {
    x: f64,
    y: f64,
    path: String,
}

impl Line {
    fn from(x: f64, y: f64) -> Self {
        let (x, y) = (tenths(x), tenths(y));
        Self { x, y, path: format!("M{x} {y}") }
    }

    fn add(&mut self, piece: &str, x: f64, y: f64) {
        self.path.push_str(piece);
        (self.x, self.y) = (x, y);
    }

    fn vertical(&mut self, y: f64) {
        let y = tenths(y);
        if y != self.y {
            self.add(&format!("V{y}"), self.x, y);
        }
    }

    /// To another height, leaving and arriving vertically.
    fn sway(&mut self, x: f64, y: f64) {
        let (x, y) = (tenths(x), tenths(y));
        if x == self.x {
            return self.vertical(y);
        }
        let halfway = tenths(f64::midpoint(self.y, y));
        self.add(&format!("C{} {halfway} {x} {halfway} {x} {y}", self.x), x, y);
    }

    /// To the same height elsewhere, over `peak`.
    fn arch(&mut self, x: f64, peak: f64) {
        let (x, peak) = (tenths(x), tenths(peak));
        self.add(&format!("C{} {peak} {x} {peak} {x} {}", self.x, self.y), x, self.y);
    }

    /// From horizontal to vertical, with a bend that goes down by `bend`.
    fn corner_out(&mut self, x: f64, y: f64, bend: f64) {
        let (x, y, down) = (tenths(x), tenths(y), tenths(y + bend));
        self.add(&format!("H{}Q{x} {y} {x} {down}", tenths(x - bend.abs())), x, down);
    }

    /// From vertical to horizontal at `y`, and on to `end`.
    fn corner_in(&mut self, x: f64, y: f64, bend: f64, end: f64) {
        let (x, y, end) = (tenths(x), tenths(y), tenths(end));
        self.add(&format!("Q{x} {y} {} {y}H{end}", tenths(x - bend.abs())), end, y);
    }
}
