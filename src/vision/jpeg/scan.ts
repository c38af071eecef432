/** Scans of a JPEG: entropy-coded data of one or more components, baseline or progressive. */
import { invalid, truncated } from '../picture.ts';
import { BitReader, type HuffmanTable } from './bits.ts';
import type { Component, Frame } from './frame.ts';
import { inverseDct } from './idct.ts';

/** Place of the k-th coefficient. Runs may lead past the end, which is then place 63 (as in stb). */
export const ZIGZAG = Uint8Array.from([
  0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57,
  50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63,
  63, 63, 63, 63, 63, 63, 63, 63,
]);

export interface Tables {
  readonly quant: readonly (Uint16Array | undefined)[];
  readonly dc: readonly (HuffmanTable | undefined)[];
  readonly ac: readonly (HuffmanTable | undefined)[];
  /** MCUs between restart markers; 0: no markers. */
  readonly restart: number;
}

interface Part {
  readonly component: Component;
  readonly dc: HuffmanTable | undefined;
  readonly ac: HuffmanTable | undefined;
  /** DC value of the block before. */
  last: number;
}

/** Coefficients of a progressive scan: places, and the bits that it adds. */
interface Band {
  readonly from: number;
  readonly to: number;
  readonly high: number;
  readonly low: number;
}

type Block = (part: Part, index: number) => void;

/** @returns the blocks that were visited, and the address after the data */
export function readScan(
  bytes: Uint8Array,
  header: Uint8Array,
  at: number,
  frame: Frame,
  tables: Tables,
): { readonly blocks: number; readonly at: number } {
  const { parts, band } = readHeader(header, frame, tables);
  const reader = new BitReader(bytes, at);
  const scan = frame.progressive ? progressive(reader, band) : baseline(reader, tables);
  const mcus = mcusOf(frame, parts);
  let left = tables.restart;
  for (let mcu = 0; mcu < mcus.count; mcu++) {
    if (tables.restart > 0 && left-- === 0) {
      toRestart(bytes, reader);
      for (const part of parts) part.last = 0;
      scan.restart();
      left = tables.restart - 1;
    }
    mcus.visit(mcu, scan.block);
    if (reader.overrun) throw truncated(`in MCU ${mcu} of ${mcus.count} of a scan`);
  }
  for (const { component } of parts) component.seen = true;
  return { blocks: mcus.count * mcus.blocks, at: reader.at };
}

function readHeader(header: Uint8Array, frame: Frame, tables: Tables): { parts: Part[]; band: Band } {
  const n = header[0];
  if (!(n >= 1 && n <= 4) || header.length !== 4 + 2 * n) throw invalid(`has a scan header of ${header.length} bytes for ${n} components`);
  const [from, to, approximation] = header.subarray(1 + 2 * n);
  const band = { from, to, high: approximation >> 4, low: approximation & 15 };
  const { progressive: many } = frame;
  if (from > 63 || to > 63 || from > to || band.high > 13 || band.low > 13 || (many && (from === 0 ? to > 0 : n > 1)))
    throw invalid(`has a scan of coefficients ${from} to ${to} of ${n} components, which JPEG does not have`);
  if (!many && (from !== 0 || approximation !== 0)) throw invalid('has a partial scan, which only progressive files have');
  const parts = Array.from({ length: n }, (_, i) => {
    const [id, codes] = header.subarray(1 + 2 * i);
    const component = frame.components.find((c) => c.id === id);
    if (!component) throw invalid(`has a scan of component ${id}, which its frame does not have`);
    const [dc, ac] = [tables.dc[codes >> 4], tables.ac[codes & 15]];
    const needsDc = from === 0 && band.high === 0;
    const needsAc = !many || from > 0;
    if ((needsDc && !dc) || (needsAc && !ac)) throw invalid('has a scan whose Huffman table is missing');
    if (!many && !tables.quant[component.quantTable]) throw invalid('has a component whose quantisation table is missing');
    return { component, dc, ac, last: 0 };
  });
  return { parts, band };
}

/** Order of blocks: rows of a single component without padding, or MCUs of several components. */
function mcusOf(
  { across, down }: Frame,
  parts: readonly Part[],
): { readonly count: number; readonly blocks: number; visit(mcu: number, block: Block): void } {
  if (parts.length === 1) {
    const [part] = parts;
    const { width, height, across: stride } = part.component;
    const columns = Math.ceil(width / 8);
    return {
      count: columns * Math.ceil(height / 8),
      blocks: 1,
      visit: (mcu, block) => block(part, Math.floor(mcu / columns) * stride + (mcu % columns)),
    };
  }
  return {
    count: across * down,
    blocks: parts.reduce((sum, { component: { h, v } }) => sum + h * v, 0),
    visit(mcu, block) {
      const [x, y] = [mcu % across, Math.floor(mcu / across)];
      for (const part of parts) {
        const { h, v, across: stride } = part.component;
        for (let dy = 0; dy < v; dy++) for (let dx = 0; dx < h; dx++) block(part, (y * v + dy) * stride + x * h + dx);
      }
    },
  };
}

/** Passes the restart marker, which must be next. */
function toRestart(bytes: Uint8Array, reader: BitReader): void {
  reader.align();
  let { at } = reader;
  while (bytes[at] === 0xff && bytes[at + 1] === 0xff) at++;
  if (at + 1 >= bytes.length) throw truncated('before a restart marker');
  if (bytes[at] !== 0xff || (bytes[at + 1] & 0xf8) !== 0xd0) throw invalid('lacks a restart marker: the file is damaged');
  reader.at = at + 2;
}

/** Blocks of a baseline scan, which are transformed at once. */
function baseline(reader: BitReader, { quant }: Tables): { block: Block; restart(): void } {
  const values = new Int32Array(64);
  const put = (place: number, value: number, factor: number): void => void (values[place] = ((value * factor) << 16) >> 16);
  return {
    restart() {},
    block(part, index) {
      const { component } = part;
      const table = quant[component.quantTable]!;
      values.fill(0);
      part.last += reader.readSigned(dcBits(reader.readCode(part.dc!)));
      put(0, part.last, table[0]);
      for (let k = 1; k < 64; k++) {
        const code = reader.readCode(part.ac!);
        const [run, bits] = [code >> 4, code & 15];
        if (bits === 0) {
          if (run < 15) break;
          k += 15;
          continue;
        }
        k += run;
        const place = ZIGZAG[k];
        put(place, reader.readSigned(bits), table[place]);
      }
      transformBlock(component, index, values);
    },
  };
}

function dcBits(code: number): number {
  if (code > 15) throw invalid(`has a DC value of ${code} bits: the file is damaged`);
  return code;
}

function transformBlock({ plane, across }: Component, index: number, values: Int32Array): void {
  const [x, y] = [index % across, Math.floor(index / across)];
  inverseDct(values, plane, 64 * across * y + 8 * x, 8 * across);
}

/** Transforms all blocks of a progressive component, after its last scan. */
export function transformComponent(component: Component, table: Uint16Array): void {
  const { across, down, coefficients } = component;
  const values = new Int32Array(64);
  for (let index = 0; index < across * down; index++) {
    for (let i = 0; i < 64; i++) values[i] = ((coefficients![64 * index + i] * table[i]) << 16) >> 16;
    transformBlock(component, index, values);
  }
}

/** Blocks of a progressive scan, whose bits are added to the coefficients. */
function progressive(reader: BitReader, band: Band): { block: Block; restart(): void } {
  const { from, high, low } = band;
  const one = 1 << low;
  const ac = from > 0 ? acScan(reader, band) : undefined;
  return {
    restart: () => ac?.restart(),
    block(part, index) {
      const values = part.component.coefficients!;
      const at = 64 * index;
      if (ac) ac.block(values, at, part.ac!);
      else if (high > 0) values[at] += reader.read(1) * one;
      else {
        part.last += reader.readSigned(dcBits(reader.readCode(part.dc!)));
        values[at] = part.last * one;
      }
    },
  };
}

/** AC coefficients: the first bits of a band, or one bit more of each (T.81, G.1.2). */
function acScan(
  reader: BitReader,
  { from, to, high, low }: Band,
): { block(values: Int16Array, at: number, table: HuffmanTable): void; restart(): void } {
  const one = 1 << low;
  /** Blocks to come that have no further codes. */
  let empty = 0;
  const first = (values: Int16Array, at: number, table: HuffmanTable): void => {
    for (let k = from; k <= to; k++) {
      const code = reader.readCode(table);
      const [run, bits] = [code >> 4, code & 15];
      if (bits === 0) {
        if (run < 15) {
          empty = (1 << run) - 1 + reader.read(run);
          return;
        }
        k += 15;
        continue;
      }
      k += run;
      values[at + ZIGZAG[k]] = reader.readSigned(bits) * one;
    }
  };
  const refine = (values: Int16Array, place: number): void => {
    if (reader.read(1) === 0 || (values[place] & one) !== 0) return;
    values[place] += values[place] > 0 ? one : -one;
  };
  /** Refines values up to the `zeros`-th zero; returns its k, or to + 1. */
  const pass = (values: Int16Array, at: number, k: number, zeros: number): number => {
    for (; k <= to; k++) {
      const place = at + ZIGZAG[k];
      if (values[place] !== 0) refine(values, place);
      else if (zeros-- === 0) return k;
    }
    return k;
  };
  const further = (values: Int16Array, at: number, table: HuffmanTable): void => {
    for (let k = from; k <= to; k++) {
      const code = reader.readCode(table);
      const [run, bits] = [code >> 4, code & 15];
      let put = 0;
      if (bits > 0) put = reader.read(1) ? one : -one;
      else if (run < 15) {
        empty = (1 << run) - 1 + reader.read(run);
        pass(values, at, k, 64);
        return;
      }
      k = pass(values, at, k, run);
      if (put !== 0 && k <= to) values[at + ZIGZAG[k]] = put;
    }
  };
  return {
    restart: () => void (empty = 0),
    block(values, at, table) {
      if (empty === 0) return (high > 0 ? further : first)(values, at, table);
      empty--;
      if (high > 0) pass(values, at, from, 64);
    },
  };
}
