//! Which layer a step is in, and its place there.
//!
//! Decides the layers by the longest way over what steps need, lays waypoints for edges that pass
//! layers, and orders each layer to cross few edges. Positions in pixels come later. The number of
//! sweeps and of waypoints is bounded, so that the work grows as the graph does, times a logarithm.

use std::collections::VecDeque;

use super::{EdgeKind, FlowGraph};

/// How often the layers are ordered downwards and upwards again.
const ROUNDS: usize = 5;
/// How many waypoints there may be for each node and edge, and in all; the longest edges go
/// without.
pub(super) const WAYPOINTS_PER_PART: usize = 8;
pub(super) const WAYPOINTS_MAX: usize = 20_000;

/// A place in a layer: a node's box, or a waypoint of an edge that passes the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) layer: usize,
    /// Where it is in its layer.
    pub(super) place: usize,
    pub(super) is_box: bool,
}

/// A piece of an edge, from one layer to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) upper: usize,
    pub(super) lower: usize,
    /// Whether it belongs to a way that is drawn beside the boxes; such a one moves no box.
    pub(super) aside: bool,
}

/// How an edge is led through the layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// The edge's place in the graph.
    pub(super) edge: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether it is drawn on the right of the boxes.
    pub(super) aside: bool,
    /// Its waypoints, from the first layer after the one it leaves.
    pub(super) waypoints: Vec<usize>,
}

/// The graph in layers. The first slots are the nodes' boxes, in their order.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) slots: Vec<Slot>,
    pub(super) layers: Vec<Vec<usize>>,
    pub(super) links: Vec<Link>,
    pub(super) ways: Vec<Way>,
    /// For each slot, its links to the layer above and to the layer below.
    pub(super) above: Vec<Vec<usize>>,
    pub(super) below: Vec<Vec<usize>>,
}

impl Order {
    pub(super) fn of(graph: &FlowGraph) -> Self {
        let node_layers = layers(graph);
        let slots = node_layers.iter().map(|&layer| Slot { layer, place: 0, is_box: true });
        let mut order = Self {
            slots: slots.collect(),
            layers: vec![Vec::new(); node_layers.iter().max().map_or(0, |deepest| deepest + 1)],
            links: Vec::new(),
            ways: ways(graph, &node_layers),
            above: Vec::new(),
            below: Vec::new(),
        };
        order.lay_waypoints();
        order.place_first();
        order.sweep();
        order
    }

    pub(super) fn slot(&self, slot: usize) -> Slot {
        self.slots.get(slot).copied().unwrap_or(Slot { layer: 0, place: 0, is_box: false })
    }

    pub(super) fn links_of<'a>(
        &'a self,
        ends: &'a [Vec<usize>],
        slot: usize,
    ) -> impl Iterator<Item = &'a Link> {
        ends.get(slot).into_iter().flatten().filter_map(|&link| self.links.get(link))
    }

    fn lay_waypoints(&mut self) {
        let parts = self.slots.len() + self.ways.len();
        let mut left = WAYPOINTS_MAX.min(WAYPOINTS_PER_PART * parts);
        let mut ways = std::mem::take(&mut self.ways);
        let mut shortest_first: Vec<(usize, &mut Way)> = ways
            .iter_mut()
            .map(|way| (self.slot(way.from).layer.abs_diff(self.slot(way.to).layer), way))
            .collect();
        shortest_first.sort_by_key(|(span, way)| (*span, way.edge));
        for (span, way) in shortest_first {
            if span == 0 || span - 1 > left {
                continue;
            }
            left -= span - 1;
            let (start, end) = (self.slot(way.from).layer, self.slot(way.to).layer);
            let mut last = way.from;
            for passed in 1..=span {
                let next = if passed == span {
                    way.to
                } else {
                    let layer = if start < end { start + passed } else { start - passed };
                    self.slots.push(Slot { layer, place: 0, is_box: false });
                    way.waypoints.push(self.slots.len() - 1);
                    self.slots.len() - 1
                };
                let (upper, lower) = if start < end { (last, next) } else { (next, last) };
                self.links.push(Link { upper, lower, aside: way.aside });
                last = next;
            }
        }
        self.ways = ways;
        self.above = vec![Vec::new(); self.slots.len()];
        self.below = vec![Vec::new(); self.slots.len()];
        for (number, link) in self.links.iter().enumerate() {
            if let Some(links) = self.below.get_mut(link.upper) {
                links.push(number);
            }
            if let Some(links) = self.above.get_mut(link.lower) {
                links.push(number);
            }
        }
    }

    /// Places the slots as a walk from the first steps downwards meets them, which keeps a branch
    /// together.
    fn place_first(&mut self) {
        let mut met = vec![false; self.slots.len()];
        for start in 0..self.slots.len() {
            let mut ahead = vec![start];
            while let Some(slot) = ahead.pop() {
                match met.get_mut(slot) {
                    Some(met) if !*met => *met = true,
                    _ => continue,
                }
                let layer = self.slot(slot).layer;
                if let Some(layer) = self.layers.get_mut(layer) {
                    layer.push(slot);
                }
                let next: Vec<usize> =
                    self.links_of(&self.below, slot).map(|link| link.lower).collect();
                ahead.extend(next.into_iter().rev());
            }
        }
        self.number();
    }

    fn number(&mut self) {
        for layer in &self.layers {
            for (place, &slot) in layer.iter().enumerate() {
                if let Some(slot) = self.slots.get_mut(slot) {
                    slot.place = place;
                }
            }
        }
    }

    fn sweep(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for _ in 0..ROUNDS {
            for downwards in [true, false] {
                let count = self.layers.len();
                for step in 1..count {
                    let layer = if downwards { step } else { count - 1 - step };
                    self.sort_layer(layer, downwards);
                }
                let crossings = self.crossings();
                if crossings < best.0 {
                    best = (crossings, self.layers.clone());
                }
            }
        }
        self.layers = best.1;
        self.number();
    }

    /// Sorts a layer by where the neighbours of its slots are on the average.
    fn sort_layer(&mut self, layer: usize, by_upper: bool) {
        let Some(slots) = self.layers.get(layer) else { return };
        let mut keyed: Vec<(f64, usize)> = slots
            .iter()
            .map(|&slot| (self.barycentre(slot, by_upper).unwrap_or(self.share(slot)), slot))
            .collect();
        keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (place, &(_, slot)) in keyed.iter().enumerate() {
            if let Some(slot) = self.slots.get_mut(slot) {
                slot.place = place;
            }
        }
        if let Some(slots) = self.layers.get_mut(layer) {
            *slots = keyed.into_iter().map(|(_, slot)| slot).collect();
        }
    }

    fn barycentre(&self, slot: usize, by_upper: bool) -> Option<f64> {
        let ends = if by_upper { &self.above } else { &self.below };
        let (mut sum, mut count) = (0.0, 0.0);
        for link in self.links_of(ends, slot) {
            let other = if by_upper { link.upper } else { link.lower };
            if link.aside && self.slot(slot).is_box {
                continue;
            }
            // A way aside runs on the right of the box that it leaves, not on top of it.
            let right = if link.aside && self.slot(other).is_box { 0.3 } else { 0.0 };
            sum += self.share(other) + right / self.breadth(other) as f64;
            count += 1.0;
        }
        (count > 0.0).then(|| sum / count)
    }

    /// Where a slot is in its layer, from 0 to 1.
    fn share(&self, slot: usize) -> f64 {
        (self.slot(slot).place as f64 + 0.5) / self.breadth(slot) as f64
    }

    /// How many slots there are in the layer of `slot`.
    pub(super) fn breadth(&self, slot: usize) -> usize {
        self.layers.get(self.slot(slot).layer).map_or(1, |layer| layer.len().max(1))
    }

    /// How many pairs of links cross.
    pub(super) fn crossings(&self) -> u64 {
        let mut pairs: Vec<(usize, usize, usize)> = self
            .links
            .iter()
            .map(|link| {
                let (upper, lower) = (self.slot(link.upper), self.slot(link.lower));
                (upper.layer, upper.place, lower.place)
            })
            .collect();
        pairs.sort_unstable();
        let mut crossings = 0;
        for band in pairs.chunk_by(|one, other| one.0 == other.0) {
            let breadth = band.iter().map(|pair| pair.2 + 1).max().unwrap_or(0);
            let mut seen = Tally::new(breadth);
            for (before, &(_, _, lower)) in (0..).zip(band) {
                crossings += before - seen.up_to(lower);
                seen.add(lower);
            }
        }
        crossings
    }
}

/// Counts of places, summed from the left in logarithmic time.
struct Tally(Vec<u64>);

impl Tally {
    fn new(places: usize) -> Self {
        Self(vec![0; places + 1])
    }

    fn add(&mut self, place: usize) {
        let mut at = place + 1;
        while let Some(count) = self.0.get_mut(at) {
            *count += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// How many were added at `place` or left of it.
    fn up_to(&self, place: usize) -> u64 {
        let (mut at, mut sum) = (place + 1, 0);
        while at > 0 {
            sum += self.0.get(at).copied().unwrap_or(0);
            at &= at - 1;
        }
        sum
    }
}

/// Each node's layer: one below the lowest that it needs. Where steps need each other in a circle,
/// the first of them in the flow comes first.
fn layers(graph: &FlowGraph) -> Vec<usize> {
    let count = graph.nodes.len();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut missing = vec![0_usize; count];
    for (_, edge) in graph.drawn() {
        if edge.kind == EdgeKind::Needs
            && edge.from != edge.to
            && let (Some(after), Some(missing)) =
                (after.get_mut(edge.from), missing.get_mut(edge.to))
        {
            after.push(edge.to);
            *missing += 1;
        }
    }
    let mut layers = vec![0; count];
    let mut placed = vec![false; count];
    let mut ready: VecDeque<usize> = VecDeque::new();
    ready.extend((0..count).filter(|&node| missing.get(node) == Some(&0)));
    let mut unplaced = 0..count;
    loop {
        let next = ready
            .pop_front()
            .or_else(|| unplaced.by_ref().find(|&node| placed.get(node) == Some(&false)));
        let Some(node) = next else { return layers };
        if placed.get_mut(node).is_none_or(|placed| std::mem::replace(placed, true)) {
            continue;
        }
        let layer = layers.get(node).copied().unwrap_or(0);
        for &next in after.get(node).into_iter().flatten() {
            if placed.get(next) == Some(&true) {
                continue;
            }
            if let (Some(next_layer), Some(missing)) = (layers.get_mut(next), missing.get_mut(next))
            {
                *next_layer = (layer + 1).max(*next_layer);
                *missing -= 1;
                if *missing == 0 {
                    ready.push_back(next);
                }
            }
        }
    }
}

fn ways(graph: &FlowGraph, layers: &[usize]) -> Vec<Way> {
    graph
        .drawn()
        .map(|(number, edge)| {
            let downwards = layers.get(edge.from) < layers.get(edge.to);
            let aside = edge.kind != EdgeKind::Needs || !downwards;
            let (from, to) = (edge.from, edge.to);
            Way { edge: number, from, to, aside, waypoints: Vec::new() }
        })
        .collect()
}
