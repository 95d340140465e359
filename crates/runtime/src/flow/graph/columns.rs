//! Where the slots of each layer are from left to right.
//!
//! Decides columns: slots that are linked stand straight below each other where their order allows
//! it. Columns are packed four times, from the top and from the bottom, to the left and to the
//! right, and each slot takes the middle of its four places. Each packing takes time linear in the
//! graph.

use super::order::Order;

/// Room between two boxes, and beside a line that passes a layer.
const BOX_GAP: f64 = 32.0;
const LINE_GAP: f64 = 18.0;

/// The room that a slot takes left and right of its middle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Room {
    pub(super) left: f64,
    pub(super) right: f64,
}

/// The middles of all slots, at least as far from each other as their room asks.
pub(super) fn middles(order: &Order, rooms: &[Room]) -> Vec<f64> {
    let mut packings: Vec<Packing> = Vec::new();
    for (from_top, from_left) in [(true, true), (true, false), (false, true), (false, false)] {
        packings.push(Packing::of(order, rooms, from_top, from_left));
    }
    let narrowest = packings.iter().min_by(|one, other| one.width().total_cmp(&other.width()));
    let Some((left, right)) = narrowest.map(|packing| (packing.left, packing.right)) else {
        return Vec::new();
    };
    for packing in &mut packings {
        let shift = if packing.from_left { left - packing.left } else { right - packing.right };
        packing.middles.iter_mut().for_each(|middle| *middle += shift);
    }
    (0..order.slots.len())
        .map(|slot| {
            let mut places: Vec<f64> =
                packings.iter().filter_map(|packing| packing.middles.get(slot).copied()).collect();
            places.sort_by(f64::total_cmp);
            places.iter().skip(1).take(2).sum::<f64>() / 2.0
        })
        .collect()
}

/// How far the middles of two neighbours in a layer must be apart.
pub(super) fn distance(order: &Order, rooms: &[Room], left: usize, right: usize) -> f64 {
    let boxes = order.slot(left).is_box && order.slot(right).is_box;
    let gap = if boxes { BOX_GAP } else { LINE_GAP };
    gap + rooms.get(left).map_or(0.0, |room| room.right)
        + rooms.get(right).map_or(0.0, |room| room.left)
}

/// One way to pack the columns.
struct Packing {
    from_left: bool,
    middles: Vec<f64>,
    left: f64,
    right: f64,
}

impl Packing {
    fn of(order: &Order, rooms: &[Room], from_top: bool, from_left: bool) -> Self {
        let mut layers = order.layers.clone();
        if !from_top {
            layers.reverse();
        }
        if !from_left {
            layers.iter_mut().for_each(|layer| layer.reverse());
        }
        let columns = Columns::of(order, &layers, from_top, from_left);
        let distance = |before: usize, after: usize| {
            if from_left {
                distance(order, rooms, before, after)
            } else {
                distance(order, rooms, after, before)
            }
        };
        let packed = columns.pack(&layers, distance);
        let sign = if from_left { 1.0 } else { -1.0 };
        let middles: Vec<f64> = packed.into_iter().map(|middle| sign * middle).collect();
        let ends = || middles.iter().zip(rooms);
        let left = ends().map(|(middle, room)| middle - room.left).fold(f64::INFINITY, f64::min);
        let right =
            ends().map(|(middle, room)| middle + room.right).fold(f64::NEG_INFINITY, f64::max);
        Self { from_left, middles, left, right }
    }

    fn width(&self) -> f64 {
        self.right - self.left
    }
}

/// For each slot, the first slot of its column.
struct Columns(Vec<usize>);

impl Columns {
    /// Walks the layers and puts each slot below the middle one of its neighbours, unless a column
    /// further right would be crossed.
    fn of(order: &Order, layers: &[Vec<usize>], from_top: bool, from_left: bool) -> Self {
        let straight = straight_first(order);
        let place = |slot: usize| {
            let (place, breadth) = (order.slot(slot).place, order.breadth(slot));
            if from_left { place } else { breadth - 1 - place }
        };
        let ends = if from_top { &order.above } else { &order.below };
        let mut columns: Vec<usize> = (0..order.slots.len()).collect();
        for layer in layers {
            let mut free = 0;
            for &slot in layer {
                let mut near: Vec<(usize, usize, bool)> = Vec::new();
                for &number in ends.get(slot).into_iter().flatten() {
                    let Some(link) = order.links.get(number) else { continue };
                    let other = if from_top { link.upper } else { link.lower };
                    // A way aside runs beside its boxes, not below them.
                    if !(link.aside && (order.slot(slot).is_box || order.slot(other).is_box)) {
                        let open = straight.get(number).copied().unwrap_or(false);
                        near.push((place(other), other, open));
                    }
                }
                near.sort_unstable();
                let last = near.len().saturating_sub(1);
                for at in [last / 2, last.div_ceil(2)] {
                    let Some(&(place, other, true)) = near.get(at) else { continue };
                    if place >= free {
                        let column = columns.get(other).copied().unwrap_or(other);
                        if let Some(own) = columns.get_mut(slot) {
                            *own = column;
                        }
                        free = place + 1;
                        break;
                    }
                }
            }
        }
        Self(columns)
    }

    fn of_slot(&self, slot: usize) -> usize {
        self.0.get(slot).copied().unwrap_or(slot)
    }

    /// The middles when every column is as far left as those left of it allow, and then as far
    /// right as those right of it allow.
    fn pack(&self, layers: &[Vec<usize>], distance: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let count = self.0.len();
        let mut after: Vec<Vec<(usize, f64)>> = vec![Vec::new(); count];
        let mut missing = vec![0_usize; count];
        for layer in layers {
            for (&left, &right) in layer.iter().zip(layer.iter().skip(1)) {
                let (column, next) = (self.of_slot(left), self.of_slot(right));
                if let (Some(after), Some(missing)) = (after.get_mut(column), missing.get_mut(next))
                {
                    after.push((next, distance(left, right)));
                    *missing += 1;
                }
            }
        }
        let mut places = vec![0.0_f64; count];
        let mut walk: Vec<usize> =
            (0..count).filter(|&column| missing.get(column) == Some(&0)).collect();
        let mut at = 0;
        while let Some(&column) = walk.get(at) {
            at += 1;
            let place = places.get(column).copied().unwrap_or(0.0);
            for &(next, distance) in after.get(column).into_iter().flatten() {
                if let (Some(next_place), Some(missing)) =
                    (places.get_mut(next), missing.get_mut(next))
                {
                    *next_place = next_place.max(place + distance);
                    *missing -= 1;
                    if *missing == 0 {
                        walk.push(next);
                    }
                }
            }
        }
        for &column in walk.iter().rev() {
            let room = after.get(column).into_iter().flatten().map(|&(next, distance)| {
                places.get(next).map_or(f64::INFINITY, |place| place - distance)
            });
            let furthest = room.fold(f64::INFINITY, f64::min);
            if let Some(place) = places.get_mut(column)
                && furthest.is_finite()
            {
                *place = place.max(furthest);
            }
        }
        (0..count).map(|slot| places.get(self.of_slot(slot)).copied().unwrap_or(0.0)).collect()
    }
}

/// For each link, whether a column may follow it: not where it would break a line between
/// waypoints, which is long and better straight.
fn straight_first(order: &Order) -> Vec<bool> {
    let mut open = vec![true; order.links.len()];
    let place = |slot: usize| order.slot(slot).place;
    for layer in &order.layers {
        let mut from = 0;
        let mut waiting: Vec<usize> = Vec::new();
        for (at, &slot) in layer.iter().enumerate() {
            let passing = order
                .links_of(&order.above, slot)
                .find(|link| !order.slot(link.upper).is_box && !order.slot(link.lower).is_box);
            waiting.push(slot);
            if passing.is_none() && at + 1 < layer.len() {
                continue;
            }
            let to = passing.map_or(usize::MAX, |link| place(link.upper));
            for slot in waiting.drain(..) {
                for &number in order.above.get(slot).into_iter().flatten() {
                    let Some(link) = order.links.get(number) else { continue };
                    let passes = !order.slot(link.upper).is_box && !order.slot(slot).is_box;
                    let upper = place(link.upper);
                    if !passes
                        && (upper < from || upper > to)
                        && let Some(open) = open.get_mut(number)
                    {
                        *open = false;
                    }
                }
            }
            from = if to == usize::MAX { from } else { to };
        }
    }
    open
}
