/**
 * JPEG files (ITU-T T.81): baseline and progressive, 8 bits, Huffman codes. Pixels are those of
 * stb_image, bit for bit. Arithmetic coding and lossless files are refused.
 */
import { invalid, truncated, type Picture } from '../picture.ts';
import { huffmanTable, type HuffmanTable } from './bits.ts';
import { toRgb } from './colour.ts';
import { readFrame, type Frame } from './frame.ts';
import { readScan, transformComponent, ZIGZAG } from './scan.ts';

/**
 * Visits of a block, on average over all blocks. Files of encoders have about 6; a small file with
 * more scans could take minutes.
 */
const MAX_VISITS = 24;

const [END, SCAN, QUANT, HUFFMAN, RESTART, LINES, APP0, APP14] = [0xd9, 0xda, 0xdb, 0xc4, 0xdd, 0xdc, 0xe0, 0xee];
const [BASELINE, EXTENDED, PROGRESSIVE] = [0xc0, 0xc1, 0xc2];

/** @throws ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE */
export function decodeJpeg(bytes: Uint8Array): Picture {
  const file = new JpegFile(bytes);
  const frame = file.read();
  if (frame.progressive) for (const c of frame.components) transformComponent(c, file.quantTable(c.quantTable));
  return { width: frame.width, height: frame.height, rgb: toRgb(frame, file) };
}

/** State of reading: tables and marks so far. */
class JpegFile {
  adobe = -1;
  jfif = false;
  private readonly bytes: Uint8Array;
  private readonly quant: Uint16Array[] = [];
  private readonly dc: HuffmanTable[] = [];
  private readonly ac: HuffmanTable[] = [];
  private restart = 0;
  private frame: Frame | undefined;
  private visits = 0;
  private at = 2;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  /** Reads all segments and scans up to the end marker. */
  read(): Frame {
    for (let marker = this.next(); marker !== END; marker = this.next()) {
      const body = this.segment();
      if (marker === SCAN) this.scan(body);
      else this.header(marker, body);
    }
    if (!this.frame?.components.every(({ seen }) => seen)) throw truncated('before all of its components');
    return this.frame;
  }

  quantTable(i: number): Uint16Array {
    if (!this.quant[i]) throw invalid('has a component whose quantisation table is missing');
    return this.quant[i];
  }

  /** Passes the next marker. Bytes between segments are skipped, as are restart markers. */
  private next(): number {
    const { bytes } = this;
    for (let at = bytes.indexOf(0xff, this.at); at >= 0 && at + 1 < bytes.length; at = bytes.indexOf(0xff, at + 1)) {
      const marker = bytes[at + 1];
      if (marker === 0 || marker === 0xff || (marker >= 0xd0 && marker <= 0xd7)) continue;
      this.at = at + 2;
      return marker;
    }
    throw truncated(`it has no end marker in ${bytes.length} bytes`);
  }

  /** Body of the segment that begins here. */
  private segment(): Uint8Array {
    const { bytes, at } = this;
    const length = (bytes[at] << 8) | bytes[at + 1];
    if (at + 2 > bytes.length || at + length > bytes.length) throw truncated('in a segment of its header');
    if (length < 2) throw invalid(`has a segment of ${length} bytes; expected at least 2`);
    this.at = at + length;
    return bytes.subarray(at + 2, at + length);
  }

  private scan(header: Uint8Array): void {
    const { frame, quant, dc, ac, restart } = this;
    if (!frame) throw invalid('has a scan before its frame header');
    const { blocks, at } = readScan(this.bytes, header, this.at, frame, { quant, dc, ac, restart });
    this.at = at;
    this.visits += blocks;
    const all = frame.components.reduce((sum, { across, down }) => sum + across * down, 0);
    if (this.visits > MAX_VISITS * all) throw invalid(`has too many scans; expected at most ${MAX_VISITS} for each component`);
  }

  private header(marker: number, body: Uint8Array): void {
    if (marker === BASELINE || marker === EXTENDED || marker === PROGRESSIVE) {
      if (this.frame) throw invalid('has two frame headers; expected one');
      this.frame = readFrame(body, marker === PROGRESSIVE, this.bytes.length);
    } else if (marker === QUANT) this.readQuantTables(body);
    else if (marker === HUFFMAN) this.readHuffmanTables(body);
    else if (marker === RESTART && body.length === 2) this.restart = (body[0] << 8) | body[1];
    else if (marker === APP0) this.jfif ||= begins(body, 'JFIF\0');
    else if (marker === APP14 && body.length >= 12 && begins(body, 'Adobe\0')) this.adobe = body[11];
    else if (marker === LINES && ((body[0] << 8) | body[1]) !== this.frame?.height) throw invalid('has another height after its scan');
    else if (marker < APP0 && marker !== LINES)
      throw invalid(`has a marker 0x${marker.toString(16)}, which is not read; expected a baseline or progressive JPEG`);
  }

  private readQuantTables(body: Uint8Array): void {
    for (let at = 0; at < body.length;) {
      const [precision, id] = [body[at] >> 4, body[at] & 15];
      const size = precision === 0 ? 1 : 2;
      if (precision > 1 || id > 3 || at + 1 + 64 * size > body.length) throw invalid('has a damaged quantisation table');
      at++;
      const table = new Uint16Array(64);
      for (let k = 0; k < 64; k++, at += size) table[ZIGZAG[k]] = size === 1 ? body[at] : (body[at] << 8) | body[at + 1];
      this.quant[id] = table;
    }
  }

  private readHuffmanTables(body: Uint8Array): void {
    for (let at = 0; at < body.length;) {
      const [kind, id] = [body[at] >> 4, body[at] & 15];
      const counts = body.subarray(at + 1, at + 17);
      const n = counts.reduce((sum, count) => sum + count, 0);
      const values = body.subarray(at + 17, at + 17 + n);
      if (kind > 1 || id > 3 || n > 256 || counts.length < 16 || values.length < n) throw invalid('has a damaged Huffman table');
      (kind === 0 ? this.dc : this.ac)[id] = huffmanTable(counts, values);
      at += 17 + n;
    }
  }
}

const begins = (body: Uint8Array, text: string): boolean => [...text].every((c, i) => body[i] === c.charCodeAt(0));
