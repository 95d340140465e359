// The Merkle tree over event hashes (docs/formats/log-and-checkpoint.md#merkle-tree).

import { hex, same, sha256 } from './bytes.mjs';

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

const leafOf = (hash) => sha256(LEAF, hash);
const join = (left, right) => sha256(NODE, left, right);

/** A growing tree, of which only the right edge is kept. */
export class Frontier {
  #peaks = [];

  /** Adds the 32 bytes of an event's hash. */
  push(hash) {
    let node = leafOf(hash);
    let height = 0;
    while (this.#peaks.length > 0 && this.#peaks.at(-1).height === height) {
      node = join(this.#peaks.pop().node, node);
      height += 1;
    }
    this.#peaks.push({ node, height });
  }

  /** The root over everything added so far, in hexadecimal digits. */
  root() {
    if (this.#peaks.length === 0) return hex(sha256());
    return hex(this.#peaks.map((peak) => peak.node).reduceRight((right, left) => join(left, right)));
  }
}

/** Walks up along a proof; the roots of the smaller and the larger tree, or null. */
function climb(old, now, start, proof) {
  let [a, b] = [BigInt(old), BigInt(now)];
  let [x, y] = [start, start];
  for (const node of proof) {
    if (b === 0n) return null;
    if (a % 2n === 1n || a === b) {
      x = join(node, x);
      y = join(node, y);
      while (a % 2n === 0n && a !== 0n) [a, b] = [a / 2n, b / 2n];
    } else {
      y = join(y, node);
    }
    [a, b] = [a / 2n, b / 2n];
  }
  return b === 0n ? [x, y] : null;
}

/** Whether `hash` is leaf `index` of the tree with `size` leaves and this root. All bytes. */
export function isIncluded(hash, index, size, proof, root) {
  if (!(index >= 0 && index < size)) return false;
  const roots = climb(index, size - 1, leafOf(hash), proof);
  return roots !== null && same(roots[1], root);
}

/** Whether the tree with `old` leaves is the beginning of the one with `now` leaves. All bytes. */
export function isConsistent(old, oldRoot, now, nowRoot, proof) {
  if (old > now) return false;
  if (old === 0) return proof.length === 0 && same(oldRoot, sha256());
  if (old === now) return proof.length === 0 && same(oldRoot, nowRoot);
  const nodes = 2 ** Math.round(Math.log2(old)) === old ? [oldRoot, ...proof] : [...proof];
  if (nodes.length === 0) return false;
  let [a, b] = [old - 1, now - 1];
  while (a % 2 === 1) [a, b] = [Math.floor(a / 2), Math.floor(b / 2)];
  const roots = climb(a, b, nodes[0], nodes.slice(1));
  return roots !== null && same(roots[0], oldRoot) && same(roots[1], nowRoot);
}
