// Makes a picture of the browser small: pictures of pages have few colours, so a palette will do. What
// has more colours than fit gets the nearest of the most frequent ones.

import { crc32, deflateSync, inflateSync } from 'node:zlib';

const COLOURS_MAX = 256;
const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]);

function* chunks(png) {
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    yield { name: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) };
    at += length + 12;
  }
}

/** The pixels of a PNG with eight bits for each of three or four channels, not interlaced. */
function decode(png) {
  const parts = [...chunks(png)];
  const head = parts.find(({ name }) => name === 'IHDR').data;
  const [width, height] = [head.readUInt32BE(0), head.readUInt32BE(4)];
  const channels = { 2: 3, 6: 4 }[head[9]];
  if (head[8] !== 8 || channels === undefined || head[12] !== 0) {
    throw new Error('a picture of another form than expected');
  }
  const raw = inflateSync(Buffer.concat(parts.filter(({ name }) => name === 'IDAT').map(({ data }) => data)));
  const stride = width * channels;
  const pixels = Buffer.alloc(height * stride);
  for (let y = 0; y < height; y += 1) unfilter(raw, pixels, { y, stride, channels });
  return { width, height, channels, pixels };
}

function unfilter(raw, pixels, { y, stride, channels }) {
  const filter = raw[y * (stride + 1)];
  const from = y * (stride + 1) + 1;
  const to = y * stride;
  for (let x = 0; x < stride; x += 1) {
    const left = x >= channels ? pixels[to + x - channels] : 0;
    const up = y > 0 ? pixels[to + x - stride] : 0;
    const corner = x >= channels && y > 0 ? pixels[to + x - stride - channels] : 0;
    pixels[to + x] = raw[from + x] + predicted(filter, left, up, corner);
  }
}

function predicted(filter, left, up, corner) {
  if (filter === 0) return 0;
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

/** The most frequent colours, and for every colour the place of its nearest among them. */
function palette({ pixels, channels }) {
  const often = new Map();
  for (let at = 0; at < pixels.length; at += channels) {
    const colour = pixels.readUIntBE(at, 3);
    often.set(colour, (often.get(colour) ?? 0) + 1);
  }
  const colours = [...often].sort((a, b) => b[1] - a[1]).slice(0, COLOURS_MAX).map(([colour]) => colour);
  const places = new Map(colours.map((colour, place) => [colour, place]));
  for (const colour of often.keys()) if (!places.has(colour)) places.set(colour, nearest(colour, colours));
  return { colours, places };
}

const parted = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];

function nearest(colour, colours) {
  const [r, g, b] = parted(colour);
  let best = 0;
  let least = Infinity;
  colours.forEach((one, place) => {
    const [x, y, z] = parted(one);
    const distance = 3 * (r - x) ** 2 + 4 * (g - y) ** 2 + 2 * (b - z) ** 2;
    if (distance < least) [best, least] = [place, distance];
  });
  return best;
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}

/** The same picture with a palette. */
export function smaller(png) {
  const picture = decode(png);
  const { width, height, channels, pixels } = picture;
  const { colours, places } = palette(picture);
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      rows[y * (width + 1) + 1 + x] = places.get(pixels.readUIntBE((y * width + x) * channels, 3));
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([SIGNATURE, chunk('IHDR', head), chunk('PLTE', Buffer.from(colours.flatMap(parted))),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })), chunk('IEND', Buffer.alloc(0))]);
}
