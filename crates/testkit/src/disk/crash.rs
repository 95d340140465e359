//! What a disk may hold after power loss.

use super::world::{Change, Node, World};

/// The unit in which a disk writes all or nothing.
const SECTOR: usize = 512;

/// A small generator of numbers that look random: splitmix64.
struct Dice(u64);

impl Dice {
    const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }
}

pub(super) fn after_power_loss(world: &World, seed: u64) -> World {
    let mut dice = Dice(seed);
    let nodes = world.nodes.iter().map(|node| settle(node, &mut dice)).collect();
    World::with(nodes, world.capacity)
}

fn settle(node: &Node, dice: &mut Dice) -> Node {
    match node {
        Node::File { durable, pending, .. } => {
            let mut found = durable.clone();
            // Everything lost and everything kept are likely, so that both are always tried.
            match dice.below(4) {
                0 => {}
                1 => pending.iter().for_each(|change| change.apply(&mut found)),
                _ => pending.iter().for_each(|change| tear(change, &mut found, dice)),
            }
            Node::File { now: found.clone(), durable: found, pending: Vec::new(), locked_by: None }
        }
        Node::Dir { durable, pending, .. } => {
            let mut found = durable.clone();
            let kept = dice.below(pending.len() + 1);
            pending.iter().take(kept).for_each(|change| change.apply(&mut found));
            Node::Dir { now: found.clone(), durable: found, pending: Vec::new() }
        }
        Node::Other => Node::Other,
    }
}

/// Applies a change wholly, partly or not at all. What lies before a part that was kept, and was
/// not, reads as zeros if the file did not reach there before.
fn tear(change: &Change, found: &mut Vec<u8>, dice: &mut Dice) {
    let choice = dice.below(4);
    match change {
        _ if choice == 0 => {}
        Change::Write { at, bytes } if choice == 1 => {
            let kept = dice.below(bytes.len() + 1);
            let bytes = bytes.split_at(kept).0.to_vec();
            Change::Write { at: *at, bytes }.apply(found);
        }
        Change::Write { at, bytes } if choice == 2 => {
            // The length may be known before the contents are.
            if dice.below(2) == 0 && found.len() < at + bytes.len() {
                found.resize(at + bytes.len(), 0);
            }
            let mut from = 0;
            while from < bytes.len() {
                let len = SECTOR - (at + from) % SECTOR;
                let rest = bytes.split_at(from).1;
                let piece = rest.split_at(len.min(rest.len())).0.to_vec();
                if dice.below(2) == 0 {
                    Change::Write { at: at + from, bytes: piece }.apply(found);
                }
                from += len;
            }
        }
        whole => whole.apply(found),
    }
}
