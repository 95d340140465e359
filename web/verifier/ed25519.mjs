// Ed25519, strictly (docs/formats/event.md#signature).
//
// WebCrypto verifies the equation. It does not refuse points of small order or, everywhere,
// encodings that are not canonical, so that is done here, before it is asked.

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;

function littleEndian(bytes) {
  let value = 0n;
  for (let i = bytes.length - 1; i >= 0; i -= 1) value = (value << 8n) | BigInt(bytes[i]);
  return value;
}

const mod = (value) => ((value % P) + P) % P;

function power(base, exponent) {
  let result = 1n;
  for (let b = mod(base), e = exponent; e > 0n; e >>= 1n) {
    if (e & 1n) result = (result * b) % P;
    b = (b * b) % P;
  }
  return result;
}

const D = mod(-121665n * power(121666n, P - 2n));

/** The coordinate y of an encoded point, without the sign of x. */
const yOf = (encoded) => littleEndian(encoded) & (2n ** 255n - 1n);

// The points of order 1, 2 and 4 have y = 1, -1 and 0.
const SMALL = new Set([0n, 1n, P - 1n]);

/** Whether y belongs to one of the eight points of small order. */
function isSmall(y) {
  return SMALL.has(y) || isOrderEight(y);
}

// A point of order 8 doubles to one of order 4, whose y is 0: with y(2Q) = (y^2 + x^2)/(1 - d x^2 y^2)
// that is x^2 = -y^2, and on the curve -x^2 + y^2 = 1 + d x^2 y^2 then 2 y^2 = 1 - d y^4.
function isOrderEight(y) {
  const square = mod(y * y);
  return mod(2n * square - 1n + D * square * square) === 0n;
}

/** Whether an encoding of a point is canonical and the point not of small order. */
function isSound(encoded) {
  const y = yOf(encoded);
  return y < P && !isSmall(y);
}

/** Whether there is a point of the curve with this y: x^2 = (y^2 - 1) / (d y^2 + 1). */
function isOnCurve(y) {
  const square = mod(y * y);
  const ratio = mod((square - 1n) * power(D * square + 1n, P - 2n));
  return ratio === 0n || power(ratio, (P - 1n) / 2n) === 1n;
}

/** Whether 32 bytes are a number below the order of the group, which is a little above 2^252. */
const isScalar = (encoded) => encoded[31] < 0x10 || littleEndian(encoded) < L;

/** Whether 32 bytes are a public key that may be used at all. */
export function isPublicKey(bytes) {
  return bytes.length === 32 && isSound(bytes) && isOnCurve(yOf(bytes));
}

/** A public key, ready to verify with; `isPublicKey` must hold of its bytes. */
export class VerifyingKey {
  #key;

  constructor(bytes) {
    this.bytes = bytes;
    this.#key = crypto.subtle.importKey('raw', bytes, { name: 'Ed25519' }, false, ['verify']);
    // Whoever verifies with it is told; nobody else has to be.
    this.#key.catch(() => {});
  }

  /** Whether `signature` is one of `message` with this key, by the strict rules. */
  async verify(message, signature) {
    if (signature.length !== 64) return false;
    if (!isSound(signature.subarray(0, 32)) || !isScalar(signature.subarray(32))) return false;
    return crypto.subtle.verify({ name: 'Ed25519' }, await this.#key, signature, message);
  }
}
