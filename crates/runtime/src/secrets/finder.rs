//! Finds many texts in one pass, whatever they share (Aho and Corasick, 1975).
//!
//! Knows bytes and places alone. The time is linear in the text, and the state at its end tells
//! whether one of the texts has begun there, which is what a cut-off secret looks like.

/// No node, no pattern.
const NONE: u32 = u32::MAX;

/// A set of texts to look for.
#[derive(Debug)]
pub(super) struct Finder {
    nodes: Vec<Node>,
    /// What follows the root by each byte: most of any text is read here.
    root: [u32; 256],
}

/// A beginning of one of the texts. Children of a node are a list through `sibling`.
#[derive(Debug, Clone, Copy)]
struct Node {
    byte: u8,
    child: u32,
    sibling: u32,
    /// The longest other beginning that this one ends in.
    fail: u32,
    depth: u32,
    /// The text that ends here.
    pattern: u32,
    /// The next node on the way of `fail` in which a text ends.
    shorter: u32,
}

impl Node {
    const fn new(byte: u8, depth: u32) -> Self {
        Self { byte, child: NONE, sibling: NONE, fail: 0, depth, pattern: NONE, shorter: NONE }
    }
}

impl Finder {
    /// Of equal texts the first is found.
    pub(super) fn new<'a>(patterns: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut finder = Self { nodes: vec![Node::new(0, 0)], root: [0; 256] };
        for (number, pattern) in (0..).zip(patterns) {
            finder.insert(pattern, number);
        }
        finder.link();
        finder
    }

    fn node(&self, at: u32) -> Node {
        self.nodes.get(at as usize).copied().unwrap_or(Node::new(0, 0))
    }

    fn change(&mut self, at: u32, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            change(node);
        }
    }

    fn child(&self, at: u32, byte: u8) -> Option<u32> {
        let mut next = self.node(at).child;
        while next != NONE {
            let node = self.node(next);
            if node.byte == byte {
                return Some(next);
            }
            next = node.sibling;
        }
        None
    }

    fn insert(&mut self, pattern: &[u8], number: u32) {
        let mut at = 0;
        for (depth, &byte) in (1..).zip(pattern) {
            at = match self.child(at, byte) {
                Some(next) => next,
                None => {
                    let new = u32::try_from(self.nodes.len()).unwrap_or(0);
                    let sibling = self.node(at).child;
                    self.nodes.push(Node { sibling, ..Node::new(byte, depth) });
                    self.change(at, |node| node.child = new);
                    new
                }
            };
        }
        if at != 0 && self.node(at).pattern == NONE {
            self.change(at, |node| node.pattern = number);
        }
    }

    /// Finds for each node, the short beginnings first, where to go on when its children do not fit.
    fn link(&mut self) {
        let mut queue = std::collections::VecDeque::new();
        for byte in 0..=u8::MAX {
            if let Some(child) = self.child(0, byte)
                && let Some(slot) = self.root.get_mut(usize::from(byte))
            {
                *slot = child;
                queue.push_back(child);
            }
        }
        while let Some(at) = queue.pop_front() {
            let mut next = self.node(at).child;
            while next != NONE {
                let node = self.node(next);
                let fail = self.step(self.node(at).fail, node.byte);
                let ends = self.node(fail);
                let shorter = if ends.pattern == NONE { ends.shorter } else { fail };
                self.change(next, |node| (node.fail, node.shorter) = (fail, shorter));
                queue.push_back(next);
                next = node.sibling;
            }
        }
    }

    /// The state after one more byte.
    fn step(&self, mut at: u32, byte: u8) -> u32 {
        while at != 0 {
            if let Some(next) = self.child(at, byte) {
                return next;
            }
            at = self.node(at).fail;
        }
        self.root.get(usize::from(byte)).copied().unwrap_or(0)
    }

    /// Calls `found` with the end and the number of every text found, the longest first where
    /// several end in one place. Returns how many bytes at the end of `text` begin some text.
    pub(super) fn each(
        &self,
        text: impl IntoIterator<Item = u8>,
        mut found: impl FnMut(usize, usize),
    ) -> usize {
        let mut at = 0;
        for (end, byte) in (1..).zip(text) {
            at = self.step(at, byte);
            if at == 0 {
                continue;
            }
            let mut ending = at;
            while ending != NONE {
                let node = self.node(ending);
                if node.pattern != NONE {
                    found(end, node.pattern as usize);
                }
                ending = node.shorter;
            }
        }
        self.node(at).depth as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&str], text: &str) -> (Vec<(usize, usize)>, usize) {
        let finder = Finder::new(patterns.iter().map(|pattern| pattern.as_bytes()));
        let mut all = Vec::new();
        let begun = finder.each(text.bytes(), |end, pattern| all.push((end, pattern)));
        (all, begun)
    }

    #[test]
    fn texts_that_overlap_or_hold_each_other_are_all_found() {
        assert_eq!(found(&["he", "she", "hers"], "ushers"), (vec![(4, 1), (4, 0), (6, 2)], 4));
        assert_eq!(found(&["aa"], "aaaa"), (vec![(2, 0), (3, 0), (4, 0)], 2));
        assert_eq!(found(&["abcd", "bc"], "abcx"), (vec![(3, 1)], 0));
        assert_eq!(found(&[], "abc"), (vec![], 0));
        assert_eq!(found(&["same", "same", ""], "same"), (vec![(4, 0)], 4));
    }

    #[test]
    fn the_longest_beginning_at_the_end_is_told() {
        assert_eq!(found(&["secret"], "my secr").1, 4);
        assert_eq!(found(&["secret", "retry"], "secre").1, 5);
        assert_eq!(found(&["secret", "retry"], "secxretr").1, 4);
        assert_eq!(found(&["secret"], "nothing").1, 0);
    }
}
