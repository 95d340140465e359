//! Where everything is, in pixels.
//!
//! Decides the places of boxes, the lines between them and the words beside the lines. Boxes are of
//! one size and stand in rows; lines bend only between rows, and pass a row where it left room for
//! them. Ways back leave and enter on the right. What is drawn there is decided elsewhere.

use super::FlowGraph;
use super::columns::{self, Room, distance};
use super::lettering::Letters;
use super::order::{Order, Slot, Way};
use super::routes::WORDS_ASIDE;

/// Room around the picture.
pub(super) const MARGIN: f64 = 24.0;
/// Room between two rows; more where lines go far aside or have words.
const BAND: f64 = 40.0;
const BAND_FOR_WORDS: f64 = 18.0;
const BAND_MORE_MAX: f64 = 72.0;
/// How far a box may be moved to make a line to it straight.
const NUDGE_MAX: f64 = 24.0;
/// How far from its box a way back runs, and how far from the next one.
const LANE_FIRST: f64 = 20.0;
const LANE_STEP: f64 = 10.0;
/// How many ways back run beside each other; more of them share the last lane.
const LANES_MAX: usize = 6;

/// The size of every box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BoxSize {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A box's upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Corner {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Words beside a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sign {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Whether `x` is their middle or their left end.
    pub(super) centred: bool,
    pub(super) text: String,
}

/// How one edge is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    /// The edge's place in the graph.
    pub(super) edge: usize,
    pub(super) path: String,
}

/// A graph with a place for everything.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) boxes: Vec<Corner>,
    pub(super) routes: Vec<Route>,
    pub(super) signs: Vec<Sign>,
}

/// One end of a way back at its box.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Port {
    /// How far below the box's upper border it is.
    pub(super) down: f64,
    /// How far right of the box the way runs.
    pub(super) lane: f64,
    /// How far inside the box's right side its border is there.
    pub(super) inset: f64,
}

/// Which end of which way needs a port, in the order of the ports: a box's way to itself is nearest
/// to the middle of its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    node: usize,
    upwards: bool,
    elsewhere: bool,
    span: usize,
    way: usize,
    leaves: bool,
}

/// A drawing while it is made.
pub(super) struct Draft<'a> {
    graph: &'a FlowGraph,
    pub(super) size: BoxSize,
    pub(super) order: Order,
    wording: Vec<String>,
    /// For each way, its ports where it leaves and where it enters; of use only to ways aside.
    ports: Vec<(Port, Port)>,
    /// For each slot, how far from its middle the lanes beside it end.
    lanes: Vec<f64>,
    /// For each slot, the room that it takes left and right of its middle.
    rooms: Vec<Room>,
    /// For each slot, its middle.
    middle: Vec<f64>,
    /// For each layer, its upper border.
    tops: Vec<f64>,
}

/// Places `graph` below `top`, with a border that `round` says how far is inside of a box's right
/// side, by node and distance from the box's upper border.
pub(super) fn place(
    graph: &FlowGraph,
    size: BoxSize,
    top: f64,
    round: impl Fn(usize, f64) -> f64,
) -> Drawing {
    let order = Order::of(graph);
    let slots = order.slots.len();
    let mut draft = Draft {
        graph,
        size,
        wording: graph.edges.iter().map(super::GraphEdge::wording).collect(),
        ports: vec![Default::default(); order.ways.len()],
        lanes: Vec::new(),
        rooms: vec![Room { left: 2.0, right: 2.0 }; slots],
        middle: vec![0.0; slots],
        tops: Vec::new(),
        order,
    };
    draft.set_ports(round);
    draft.take_room();
    draft.spread();
    draft.stack(top);
    draft.finish()
}

impl Draft<'_> {
    fn slot(&self, slot: usize) -> Slot {
        self.order.slot(slot)
    }

    pub(super) fn x(&self, slot: usize) -> f64 {
        self.middle.get(slot).copied().unwrap_or(0.0)
    }

    pub(super) fn top(&self, slot: usize) -> f64 {
        self.tops.get(self.slot(slot).layer).copied().unwrap_or(0.0)
    }

    pub(super) fn words(&self, edge: usize) -> &str {
        self.wording.get(edge).map_or("", String::as_str)
    }

    /// How far right of a box's middle the words of its ways aside begin.
    pub(super) fn words_from(&self, slot: usize) -> f64 {
        self.lanes.get(slot).copied().unwrap_or(0.0) + 6.0
    }

    /// Gives every way aside its ports. Ends that go upwards are in the upper half of the box, the
    /// outer lanes nearer to its middle, so that the ways of one box do not cross beside it.
    fn set_ports(&mut self, round: impl Fn(usize, f64) -> f64) {
        let mut ends: Vec<End> = Vec::new();
        for (way, route) in self.order.ways.iter().enumerate().filter(|(_, way)| way.aside) {
            let (from, to) = (self.slot(route.from).layer, self.slot(route.to).layer);
            let (elsewhere, span) = (route.from != route.to, from.abs_diff(to));
            let end = |node, upwards, leaves| End { node, upwards, elsewhere, span, way, leaves };
            ends.push(end(route.from, from >= to, true));
            ends.push(end(route.to, to > from || (to == from && elsewhere), false));
        }
        ends.sort_unstable();
        let half = self.size.height / 2.0;
        for side in
            ends.chunk_by(|one, other| (one.node, one.upwards) == (other.node, other.upwards))
        {
            let step = ((half - 12.0) / side.len() as f64).min(9.0);
            let own = side.iter().filter(|end| !end.elsewhere).count();
            for (place, end) in side.iter().enumerate() {
                let (lane, rank) = match place.checked_sub(own) {
                    None => (place, place),
                    Some(lane) => (lane, side.len() - 1 - lane),
                };
                let away = step * (rank as f64 + 0.6);
                let down = tenths(if end.upwards { half - away } else { half + away });
                let lane = LANE_FIRST + LANE_STEP * lane.min(LANES_MAX - 1) as f64;
                let port = Port { down, lane, inset: tenths(round(end.node, down)) };
                if let Some((leaving, entering)) = self.ports.get_mut(end.way) {
                    *(if end.leaves { leaving } else { entering }) = port;
                }
            }
        }
    }

    fn take_room(&mut self) {
        let half = self.size.width / 2.0;
        for (room, slot) in self.rooms.iter_mut().zip(&self.order.slots) {
            if slot.is_box {
                *room = Room { left: half, right: half };
            }
        }
        let widen = |rooms: &mut Vec<Room>, slot: usize, right: f64| {
            if let Some(room) = rooms.get_mut(slot) {
                room.right = room.right.max(half + right);
            }
        };
        for (way, (leaving, entering)) in self.order.ways.iter().zip(&self.ports) {
            if way.aside {
                widen(&mut self.rooms, way.from, leaving.lane);
                widen(&mut self.rooms, way.to, entering.lane);
            }
        }
        self.lanes = self.rooms.iter().map(|room| room.right).collect();
        for way in self.order.ways.iter().filter(|way| way.aside) {
            let words = Letters::SMALL.width(self.words(way.edge)).min(WORDS_ASIDE);
            let right = self.words_from(way.from) + words;
            if let Some(room) = self.rooms.get_mut(way.from) {
                room.right = room.right.max(right);
            }
        }
    }

    /// Finds the middles, then straightens lines that have room on both sides.
    fn spread(&mut self) {
        self.middle = columns::middles(&self.order, &self.rooms);
        self.nudge();
        let ways = std::mem::take(&mut self.order.ways);
        for (way, ports) in ways.iter().zip(&self.ports) {
            let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
            for &waypoint in &way.waypoints {
                let (left, right) = self.freedom(waypoint);
                (least, most) = (least.max(left), most.min(right));
            }
            if least > most {
                continue;
            }
            let wanted = self.wanted(way, ports).max(least).min(most);
            for &waypoint in &way.waypoints {
                if let Some(middle) = self.middle.get_mut(waypoint) {
                    *middle = wanted;
                }
            }
        }
        self.order.ways = ways;
        let left = self.middle.iter().zip(&self.rooms).map(|(middle, room)| middle - room.left);
        let left = left.fold(f64::INFINITY, f64::min);
        for middle in &mut self.middle {
            *middle = (*middle - left + MARGIN).round();
        }
    }

    /// Puts boxes that are almost below a neighbour straight below it, from the top so that those
    /// further down follow.
    fn nudge(&mut self) {
        for slot in self.order.layers.iter().flatten().copied() {
            let uppers = self.order.links_of(&self.order.above, slot);
            let mut near: Vec<f64> =
                uppers.filter(|link| !link.aside).map(|link| self.x(link.upper)).collect();
            near.sort_by(f64::total_cmp);
            let Some(&upper) = near.get(near.len() / 2) else { continue };
            let (least, most) = self.freedom(slot);
            // Between two neighbours is better than below one of them.
            let straight = near.len() % 2 == 1 && self.slot(slot).is_box;
            let close = (upper - self.x(slot)).abs() <= NUDGE_MAX;
            if straight
                && close
                && (least..=most).contains(&upper)
                && let Some(middle) = self.middle.get_mut(slot)
            {
                *middle = upper;
            }
        }
    }

    /// Between where a slot could be moved without its neighbours.
    fn freedom(&self, slot: usize) -> (f64, f64) {
        let Slot { layer, place, .. } = self.slot(slot);
        let at = |place: usize| self.order.layers.get(layer)?.get(place).copied();
        let left = place.checked_sub(1).and_then(at).map_or(f64::NEG_INFINITY, |left| {
            self.x(left) + distance(&self.order, &self.rooms, left, slot)
        });
        let right = at(place + 1).map_or(f64::INFINITY, |right| {
            self.x(right) - distance(&self.order, &self.rooms, slot, right)
        });
        (left, right)
    }

    /// Where a line would best pass the layers between its boxes.
    fn wanted(&self, way: &Way, (leaving, entering): &(Port, Port)) -> f64 {
        let (from, to) = (self.x(way.from), self.x(way.to));
        if way.aside {
            self.size.width / 2.0 + (from + leaving.lane).max(to + entering.lane)
        } else {
            f64::midpoint(from, to)
        }
    }

    /// Finds the rows' upper borders.
    fn stack(&mut self, top: f64) {
        let mut bands = vec![BAND; self.order.layers.len()];
        for link in &self.order.links {
            let aside = (self.x(link.upper) - self.x(link.lower)).abs();
            let band = BAND + (aside / 10.0).min(BAND_MORE_MAX);
            if let Some(highest) = bands.get_mut(self.slot(link.upper).layer) {
                *highest = highest.max(band);
            }
        }
        let mut worded = vec![0.0; bands.len()];
        for way in &self.order.ways {
            if way.aside || self.words(way.edge).is_empty() {
                continue;
            }
            let (from, to) = (self.slot(way.from).layer, self.slot(way.to).layer);
            for layer in [from, to.saturating_sub(1)] {
                if let Some(worded) = worded.get_mut(layer) {
                    *worded = BAND_FOR_WORDS;
                }
            }
        }
        let mut y = top;
        for (band, more) in bands.into_iter().zip(worded) {
            self.tops.push(y.round());
            y += self.size.height + band + more;
        }
    }

    fn finish(self) -> Drawing {
        let half = self.size.width / 2.0;
        let nodes = 0..self.graph.nodes.len();
        let boxes: Vec<Corner> =
            nodes.map(|node| Corner { x: self.x(node) - half, y: self.top(node) }).collect();
        let routes = self.order.ways.iter().zip(&self.ports).map(|(way, ports)| Route {
            edge: way.edge,
            path: if way.aside { self.aside(way, ports) } else { self.downwards(way) },
        });
        let routes = routes.collect();
        let signs = self.signs();
        let right = self.middle.iter().zip(&self.rooms).map(|(middle, room)| middle + room.right);
        let height = self.tops.last().map_or(0.0, |top| top + self.size.height);
        Drawing {
            width: right.fold(MARGIN, f64::max).ceil() + MARGIN,
            height: height + MARGIN,
            boxes,
            routes,
            signs,
        }
    }
}

/// Rounded to tenths of a pixel, which no eye tells apart and which keep the file short.
pub(super) fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
