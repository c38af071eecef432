/**
 * PNG files (https://www.w3.org/TR/png-3/), all colour types, depths and interlacing. Pixels are
 * those of stb_image: 16 bits are cut to the high byte, alpha and gamma are ignored.
 */
import { checkSize, invalid, truncated, type Picture } from './picture.ts';

export const PNG_SIGNATURE = '\x89PNG\r\n\x1a\n';

/** Deflate's largest ratio: 258 bytes from 2 bits. Bounds the size that the data can inflate to. */
const MAX_RATIO = 1032;

/** Samples of a pixel and depths that are allowed, by colour type. */
const COLOURS: Readonly<Record<number, { readonly channels: number; readonly depths: readonly number[] } | undefined>> = {
  0: { channels: 1, depths: [1, 2, 4, 8, 16] },
  2: { channels: 3, depths: [8, 16] },
  3: { channels: 1, depths: [1, 2, 4, 8] },
  4: { channels: 2, depths: [8, 16] },
  6: { channels: 4, depths: [8, 16] },
};
const PALETTE = 3;

interface Header {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colour: number;
  readonly channels: number;
  readonly interlaced: boolean;
}

interface Chunks {
  readonly header: Header;
  readonly palette: Uint8Array | undefined;
  readonly data: readonly Uint8Array[];
}

/** A pass over the picture: its first pixel and the distances between its pixels. */
interface Pass {
  readonly x: number;
  readonly y: number;
  readonly dx: number;
  readonly dy: number;
  readonly width: number;
  readonly height: number;
  /** Bytes of a row, without its filter type. */
  readonly rowBytes: number;
}

const WHOLE = [[0, 0, 1, 1]] as const;
const ADAM7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** @throws ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE */
export async function decodePng(bytes: Uint8Array): Promise<Picture> {
  const { header, palette, data } = readChunks(bytes);
  const passes = passesOf(header);
  const length = passes.reduce((sum, { rowBytes, height }) => sum + (rowBytes + 1) * height, 0);
  const compressed = data.reduce((sum, part) => sum + part.length, 0);
  if (length > MAX_RATIO * compressed) throw truncated(`${compressed} bytes of data for ${header.width} x ${header.height} pixels`);
  const raw = await inflate(data, length);
  const { width, height } = header;
  const rgb = new Uint8Array(3 * width * height);
  const write = rowWriter(header, palette, rgb);
  let at = 0;
  for (const pass of passes) {
    let above: Uint8Array = new Uint8Array(pass.rowBytes);
    for (let row = 0; row < pass.height; row++) {
      const line = raw.subarray(at + 1, at + 1 + pass.rowBytes);
      unfilter(raw[at], line, above, Math.max(1, (header.channels * header.depth) >> 3));
      write(line, pass, row);
      above = line;
      at += 1 + pass.rowBytes;
    }
  }
  return { width, height, rgb };
}

function readChunks(bytes: Uint8Array): Chunks {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let header: Header | undefined;
  let palette: Uint8Array | undefined;
  const data: Uint8Array[] = [];
  for (let at = PNG_SIGNATURE.length; at + 12 <= bytes.length;) {
    const length = view.getUint32(at);
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    const body = bytes.subarray(at + 8, at + 8 + length);
    if (body.length < length || at + 12 + length > bytes.length) break;
    if (!header && type !== 'IHDR') throw invalid('has no header where its first chunk is; expected IHDR');
    if (type === 'IHDR') {
      if (header) throw invalid('has two headers (IHDR); expected one');
      header = readHeader(body);
    } else if (type === 'PLTE') {
      if (length % 3 !== 0 || length > 768) throw invalid(`has a palette of ${length} bytes; expected at most 256 colours of 3`);
      palette = body;
    } else if (type === 'IDAT') data.push(body);
    else if (type === 'IEND') return checked(header!, palette, data);
    // A chunk whose type begins with a capital cannot be skipped.
    else if ((bytes[at + 4] & 0x20) === 0) throw invalid(`has a chunk of a kind that is not read (${type})`);
    at += 12 + length;
  }
  throw truncated(`it has no end chunk in ${bytes.length} bytes`);
}

function checked(header: Header, palette: Uint8Array | undefined, data: readonly Uint8Array[]): Chunks {
  if (data.length === 0) throw invalid('has no data (IDAT)');
  if (header.colour === PALETTE && !palette) throw invalid('has indices and no palette (PLTE)');
  return { header, palette, data };
}

function readHeader(body: Uint8Array): Header {
  if (body.length !== 13) throw invalid(`has a header of ${body.length} bytes; expected 13`);
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth, colour, compression, filter, interlace] = body.subarray(8);
  const kind = COLOURS[colour];
  if (!kind?.depths.includes(depth)) throw invalid(`has colour type ${colour} with ${depth} bits, which PNG does not have`);
  if (compression !== 0 || filter !== 0 || interlace > 1)
    throw invalid(`has compression ${compression}, filter ${filter} and interlacing ${interlace}; expected 0, 0, and 0 or 1`);
  checkSize(width, height);
  return { width, height, depth, colour, channels: kind.channels, interlaced: interlace === 1 };
}

function passesOf({ width, height, depth, channels, interlaced }: Header): Pass[] {
  return (interlaced ? ADAM7 : WHOLE)
    .map(([x, y, dx, dy]) => {
      const columns = Math.ceil((width - x) / dx);
      return { x, y, dx, dy, width: columns, height: Math.ceil((height - y) / dy), rowBytes: Math.ceil((columns * channels * depth) / 8) };
    })
    .filter((pass) => pass.width > 0 && pass.height > 0);
}

/** Inflates to exactly `length` bytes. Bytes are counted as they come, so that no more are kept. */
async function inflate(parts: readonly Uint8Array[], length: number): Promise<Uint8Array> {
  const out = new Uint8Array(length);
  let at = 0;
  const stream = new Blob([...parts] as BlobPart[]).stream().pipeThrough(new DecompressionStream('deflate'));
  const reader = stream.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > length) throw invalid(`has more data than its size says (more than ${length} bytes)`);
      out.set(value, at);
      at += value.length;
    }
  } catch (error) {
    reader.cancel().catch(() => {});
    if (error instanceof Error && 'code' in error && error.name === 'QuantletError') throw error;
    throw invalid(`has damaged data (deflate, after ${at} of ${length} bytes): get the file again`);
  }
  if (at < length) throw truncated(`${at} of ${length} bytes of pixels`);
  return out;
}

/** Undoes a row's filter, in place. `step`: bytes from a pixel to the next. */
function unfilter(type: number, row: Uint8Array, above: Uint8Array, step: number): void {
  const n = row.length;
  if (type === 0) return;
  if (type === 1) for (let i = step; i < n; i++) row[i] += row[i - step];
  else if (type === 2) for (let i = 0; i < n; i++) row[i] += above[i];
  else if (type === 3) for (let i = 0; i < n; i++) row[i] += ((i < step ? 0 : row[i - step]) + above[i]) >> 1;
  else if (type === 4) {
    for (let i = 0; i < Math.min(step, n); i++) row[i] += above[i];
    for (let i = step; i < n; i++) row[i] += paeth(row[i - step], above[i], above[i - step]);
  } else throw invalid(`has a row with filter ${type}; expected 0 to 4`);
}

/** The neighbour nearest to left + up - corner; ties go to the left, then up. */
function paeth(left: number, up: number, corner: number): number {
  const toLeft = Math.abs(up - corner);
  const toUp = Math.abs(left - corner);
  const toCorner = Math.abs(left + up - 2 * corner);
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}

/** Writes the pixels of an unfiltered row to their places. */
function rowWriter(
  { width, depth, colour, channels }: Header,
  palette: Uint8Array | undefined,
  rgb: Uint8Array,
): (row: Uint8Array, pass: Pass, y: number) => void {
  const step = depth === 16 ? 2 : 1;
  const mask = (1 << depth) - 1;
  const factor = colour !== PALETTE && depth < 8 ? 255 / mask : 1;
  const sample =
    depth < 8
      ? (row: Uint8Array, i: number): number => ((row[(i * depth) >> 3] >> (8 - depth - ((i * depth) & 7))) & mask) * factor
      : (row: Uint8Array, i: number): number => row[step * i];
  const [green, blue] = channels < 3 ? [0, 0] : [1, 2];
  return (row, pass, y) => {
    let to = 3 * ((pass.y + y * pass.dy) * width + pass.x);
    for (let x = 0; x < pass.width; x++, to += 3 * pass.dx) {
      const i = x * channels;
      if (palette && colour === PALETTE) {
        const from = 3 * sample(row, i);
        if (from >= palette.length) throw invalid(`has colour ${from / 3} of a palette of ${palette.length / 3}`);
        for (let c = 0; c < 3; c++) rgb[to + c] = palette[from + c];
        continue;
      }
      rgb[to] = sample(row, i);
      rgb[to + 1] = sample(row, i + green);
      rgb[to + 2] = sample(row, i + blue);
    }
  };
}
