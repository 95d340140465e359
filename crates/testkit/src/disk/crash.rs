//! What a disk may hold after power loss.

use super::world::{Change, Node, World};
use crate::dice::Dice;

/// The unit in which a disk writes all or nothing.
const SECTOR: usize = 512;

pub(super) fn after_power_loss(world: &World, seed: u64) -> World {
    let mut dice = Dice::new(seed);
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
