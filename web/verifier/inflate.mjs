// Deflate (RFC 1951), inflated piece by piece.
//
// Written out because a platform's own stream does not say where the compressed bytes end, and not every
// one minds what stands behind them: a sealed file has nothing there (docs/formats/cap.md#container).

/** Why compressed bytes are refused. */
export class Corrupt extends Error {}

const HISTORY = 32_768;
const PIECE_BYTES = 131_072;
/** Longest match, and the bytes of input that one symbol, or the head of a block, takes at most. */
const MATCH_MAX = 258;
const SYMBOL_BYTES = 16;
const HEAD_BYTES = 1_024;
const FAST_BITS = 10;

const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const [LENGTH_BASE, LENGTH_EXTRA] = bases(3, 29, (at) => (at < 8 ? 0 : (at >> 2) - 1));
const [PLACE_BASE, PLACE_EXTRA] = bases(1, 30, (at) => (at < 4 ? 0 : (at >> 1) - 1));
// The longest length has a code of its own, without extra bits.
LENGTH_BASE[28] = MATCH_MAX;
LENGTH_EXTRA[28] = 0;

function bases(first, count, extraOf) {
  const [base, extra] = [new Uint16Array(count), new Uint8Array(count)];
  for (let at = 0, next = first; at < count; at += 1) {
    base[at] = next;
    extra[at] = extraOf(at);
    next += 1 << extra[at];
  }
  return [base, extra];
}

/** A prefix code: short ones by table, long ones bit by bit. */
class Code {
  fast = new Uint16Array(1 << FAST_BITS);
  counts = new Uint16Array(16);
  symbols;

  /** From the length of each symbol's code. `sparse` codes may leave out some bits, as a code of one symbol does. */
  constructor(lengths, sparse) {
    let longest = 0;
    for (const length of lengths) {
      this.counts[length] += 1;
      longest = Math.max(longest, length);
    }
    this.counts[0] = 0;
    let left = 1;
    const starts = new Uint16Array(17);
    for (let length = 1; length < 16; length += 1) {
      left = 2 * left - this.counts[length];
      if (left < 0) throw new Corrupt('a code has too many symbols');
      starts[length + 1] = starts[length] + this.counts[length];
    }
    if (left > 0 && longest > 0 && !(sparse && longest === 1)) throw new Corrupt('a code lacks symbols');
    if (longest === 0 && !sparse) throw new Corrupt('a code has no symbols');
    this.symbols = new Uint16Array(starts[16]);
    for (let symbol = 0; symbol < lengths.length; symbol += 1) {
      if (lengths[symbol] > 0) this.symbols[starts[lengths[symbol]]++] = symbol;
    }
    this.#tabulate();
  }

  #tabulate() {
    let [code, at] = [0, 0];
    for (let length = 1; length <= FAST_BITS; length += 1) {
      for (let count = this.counts[length]; count > 0; count -= 1, code += 1, at += 1) {
        // Codes come with their first bit first, numbers with their last.
        let reversed = 0;
        for (let bit = 0; bit < length; bit += 1) reversed |= ((code >> bit) & 1) << (length - 1 - bit);
        const entry = (this.symbols[at] << 4) | length;
        for (let slot = reversed; slot < 1 << FAST_BITS; slot += 1 << length) this.fast[slot] = entry;
      }
      code <<= 1;
    }
  }

  /** A symbol shifted by four, and the bits of its code, which are the lowest of `hold`. */
  slow(hold) {
    let [code, first, at] = [0, 0, 0];
    for (let length = 1; length < 16; length += 1) {
      code |= (hold >>> (length - 1)) & 1;
      const count = this.counts[length];
      if (code - first < count) return (this.symbols[at + code - first] << 4) | length;
      at += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw new Corrupt('there is no such code');
  }
}

function fixedCodes() {
  const lengths = new Uint8Array(288).fill(8);
  lengths.fill(9, 144, 256).fill(7, 256, 280);
  return [new Code(lengths, false), new Code(new Uint8Array(32).fill(5), false)];
}

let fixed = null;

/**
 * Inflates one stream. `input` has `bytes`, `at`, `end` (places of what is there and not taken yet) and
 * `more(count)`, which tries to have that many bytes there. Afterwards `input.at` is right behind the stream.
 */
export class Inflate {
  #input;
  #hold = 0;
  #bits = 0;
  #out = new Uint8Array(HISTORY + PIECE_BYTES + MATCH_MAX);
  /** Where the next byte goes, and where those begin that were not given yet. */
  #to = 0;
  #from = 0;

  constructor(input) {
    this.#input = input;
  }

  /** The pieces, each a copy. Ends with the stream. */
  async* pieces() {
    for (let last = false; !last;) {
      await this.#input.more(HEAD_BYTES);
      last = this.#take(1) === 1;
      const kind = this.#take(2);
      if (kind === 0) yield* this.#stored();
      else yield* this.#coded(kind);
    }
    if (this.#to > this.#from) yield this.#piece();
    this.#giveBack();
  }

  #piece() {
    const piece = this.#out.slice(this.#from, this.#to);
    if (this.#to >= HISTORY) {
      // What further bytes may refer to.
      this.#out.copyWithin(0, this.#to - HISTORY, this.#to);
      this.#to = HISTORY;
    }
    this.#from = this.#to;
    return piece;
  }

  /** Whole bytes that were held but not used. */
  #giveBack() {
    this.#input.at -= this.#bits >> 3;
    this.#hold = 0;
    this.#bits = 0;
  }

  #take(count) {
    const input = this.#input;
    while (this.#bits < count) {
      if (input.at >= input.end) throw new Corrupt('the compressed bytes end early');
      this.#hold |= input.bytes[input.at++] << this.#bits;
      this.#bits += 8;
    }
    const value = this.#hold & ((1 << count) - 1);
    this.#hold >>>= count;
    this.#bits -= count;
    return value;
  }

  async* #stored() {
    this.#giveBack();
    const input = this.#input;
    const length = this.#take(16);
    if (this.#take(16) !== (length ^ 0xffff)) throw new Corrupt('the length of a stored block is wrong');
    for (let left = length; left > 0;) {
      await input.more(1);
      const count = Math.min(left, input.end - input.at, this.#from + PIECE_BYTES - this.#to);
      if (count === 0 && input.at >= input.end) throw new Corrupt('the compressed bytes end early');
      this.#out.set(input.bytes.subarray(input.at, input.at + count), this.#to);
      input.at += count;
      this.#to += count;
      left -= count;
      if (this.#to >= this.#from + PIECE_BYTES) yield this.#piece();
    }
  }

  async* #coded(kind) {
    if (kind === 3) throw new Corrupt('a block is of no kind that is known');
    if (kind === 1) fixed ??= fixedCodes();
    const [symbols, places] = kind === 1 ? fixed : this.#codes();
    for (;;) {
      await this.#input.more(HEAD_BYTES);
      if (this.#run(symbols, places)) return;
      if (this.#to >= this.#from + PIECE_BYTES) yield this.#piece();
    }
  }

  /** The codes of a block that brings its own. */
  #codes() {
    const [count, placeCount, lengthCount] = [this.#take(5) + 257, this.#take(5) + 1, this.#take(4) + 4];
    if (count > 286 || placeCount > 30) throw new Corrupt('a block has too many codes');
    const own = new Uint8Array(19);
    for (let at = 0; at < lengthCount; at += 1) own[ORDER[at]] = this.#take(3);
    const code = new Code(own, false);
    const lengths = new Uint8Array(count + placeCount);
    for (let at = 0; at < lengths.length;) {
      const symbol = this.#symbol(code);
      if (symbol < 16) {
        lengths[at++] = symbol;
        continue;
      }
      if (symbol === 16 && at === 0) throw new Corrupt('a length is repeated before there is one');
      const value = symbol === 16 ? lengths[at - 1] : 0;
      const [bits, least] = [[2, 3], [3, 3], [7, 11]][symbol - 16];
      const times = this.#take(bits) + least;
      if (at + times > lengths.length) throw new Corrupt('a block has too many lengths');
      lengths.fill(value, at, at + times);
      at += times;
    }
    if (lengths[256] === 0) throw new Corrupt('a block has no end');
    return [new Code(lengths.subarray(0, count), true), new Code(lengths.subarray(count), true)];
  }

  #symbol(code) {
    // Near the end there may be fewer bits than the longest code has; those that lack are zeros.
    const input = this.#input;
    while (this.#bits < 15 && input.at < input.end) {
      this.#hold |= input.bytes[input.at++] << this.#bits;
      this.#bits += 8;
    }
    const entry = code.fast[this.#hold & ((1 << FAST_BITS) - 1)] || code.slow(this.#hold);
    const length = entry & 15;
    if (length > this.#bits) throw new Corrupt('the compressed bytes end early');
    this.#hold >>>= length;
    this.#bits -= length;
    return entry >> 4;
  }

  /** Symbols, until the block ends (true), the room is full or the input runs out. */
  #run(symbols, places) {
    const input = this.#input;
    // What runs out now never comes.
    const least = input.ended ? 0 : SYMBOL_BYTES;
    while (this.#to < this.#from + PIECE_BYTES && input.end - input.at >= least) {
      const symbol = this.#symbol(symbols);
      if (symbol < 256) {
        this.#out[this.#to++] = symbol;
        continue;
      }
      if (symbol === 256) return true;
      if (symbol > 285) throw new Corrupt('there is no such length');
      const length = LENGTH_BASE[symbol - 257] + this.#take(LENGTH_EXTRA[symbol - 257]);
      const place = this.#symbol(places);
      if (place > 29) throw new Corrupt('there is no such distance');
      const back = PLACE_BASE[place] + this.#take(PLACE_EXTRA[place]);
      if (back > this.#to) throw new Corrupt('a distance leads before the beginning');
      this.#copy(back, length);
    }
    return false;
  }

  #copy(back, length) {
    const out = this.#out;
    const end = this.#to + length;
    for (let to = this.#to, from = to - back; to < end; to += 1, from += 1) out[to] = out[from];
    this.#to = end;
  }
}
