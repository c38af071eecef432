#!/usr/bin/env node
/**
 * Asks native ggml for the bytes of formats.json. Developers run it when a format is added; users, tests and CI do not need it.
 *
 *   mkdir oracle && cd oracle && npm init -y
 *   npm install --ignore-scripts @node-llama-cpp/linux-x64@3.22.1 koffi     (koffi's prebuilt binary comes as its optional dependency)
 *   node test/golden/formats.mjs oracle                                     writes test/golden/formats.json
 *   node test/golden/formats.mjs oracle --show ref q4_K "one NaN"           prints the bytes behind one hash
 *
 * Hashes, not bytes, are kept: the first 16 hex digits of SHA-256. ggml's reference quantisers and to_float are in libggml-base
 * (built without FMA); the products are the scalar `_generic` ones of libggml-cpu.
 */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { BELOW_POWERS, HOSTILE, IMATRIX, N, ROWS, oneNaN, randomBlocks, scaledBlocks } from './formats-rows.mjs';

const [folder, option, ...wanted] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node test/golden/formats.mjs FOLDER [--show ref|imatrix|dequantize TYPE [ROW]]; see the head of this file');
  process.exit(2);
}
const require = createRequire(join(resolve(folder), 'package.json'));
const koffi = require('koffi');
const bins = join(dirname(require.resolve('@node-llama-cpp/linux-x64')), '..', 'bins', 'linux-x64');
const base = koffi.load(join(bins, 'libggml-base.so'));
const cpu = koffi.load(join(bins, 'libggml-cpu-haswell.so'));
cpu.func('void ggml_cpu_init()')();
const quantizeChunk = base.func('size_t ggml_quantize_chunk(int type, const void *src, void *dst, int64_t start, int64_t nrows, int64_t n_per_row, const void *imatrix)');

/** GGUF id, elements and bytes of a block, vec_dot_type; `search` where the imatrix changes the result. */
const TYPES = {
  q4_0: [2, 32, 18, 'q8_0', 'search'], q4_1: [3, 32, 20, 'q8_1', 'search'], q5_0: [6, 32, 22, 'q8_0', 'search'], q5_1: [7, 32, 24, 'q8_1', 'search'],
  q8_0: [8, 32, 34, 'q8_0'], q8_1: [9, 32, 36], q2_K: [10, 256, 84, 'q8_K', 'search'], q3_K: [11, 256, 110, 'q8_K', 'search'],
  q4_K: [12, 256, 144, 'q8_K', 'search'], q5_K: [13, 256, 176, 'q8_K', 'search'], q6_K: [14, 256, 210, 'q8_K', 'search'], q8_K: [15, 256, 292],
  iq4_nl: [20, 32, 18, 'q8_0', 'search'], iq4_xs: [23, 256, 136, 'q8_K', 'search'], tq1_0: [34, 256, 54, 'q8_K'], tq2_0: [35, 256, 66, 'q8_K'], mxfp4: [39, 32, 17, 'q8_0'],
};
/** Formats that are only read. */
const READ_ONLY = { iq2_xxs: [16, 256, 66], iq2_xs: [17, 256, 74], iq3_xxs: [18, 256, 98], iq1_s: [19, 256, 50], iq3_s: [21, 256, 110], iq2_s: [22, 256, 82], iq1_m: [29, 256, 56] };

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const view = (a) => Buffer.from(a.buffer, a.byteOffset, a.byteLength);

function quantizeRef(type, x) {
  const [, elements, bytes] = TYPES[type];
  const out = Buffer.alloc((x.length / elements) * bytes);
  base.func(`void quantize_row_${type}_ref(const void *x, void *y, int64_t k)`)(view(x), out, x.length);
  return out;
}

/** iq4_nl's _ref of this version packs codes it never set where 32 elements are below 1e-15: nothing to compare with (their scale is 0). */
const hasZeroBlock = (x) => Array.from({ length: x.length / 32 }, (_, b) => x.subarray(32 * b, 32 * b + 32)).some((block) => !block.some((v) => Math.abs(v) >= 1e-15));

function quantizeImatrix(type, x) {
  const [id, elements, bytes] = TYPES[type];
  const out = Buffer.alloc((x.length / elements) * bytes);
  quantizeChunk(id, view(x), out, 0, 1, x.length, view(IMATRIX));
  return out;
}

const SEED = 1000;
const blocksOf = (type) => {
  const [id, elements, bytes] = TYPES[type] ?? READ_ONLY[type];
  return { x: randomBlocks(type, bytes, 1024 / elements, SEED + id), n: 1024 };
};

function toFloat(type, x, n) {
  const out = Buffer.alloc(4 * n);
  base.func(`void dequantize_row_${type}(const void *x, void *y, int64_t k)`)(Buffer.from(x), out, n);
  return out;
}
const dequantize = (type) => toFloat(type, blocksOf(type).x, blocksOf(type).n);

function dot(type, x, y, n) {
  const out = Buffer.alloc(4);
  cpu.func(`void ggml_vec_dot_${type}_${TYPES[type][3]}_generic(int n, void *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int nrc)`)(n, out, 0, Buffer.from(x), 0, Buffer.from(y), 0, 1);
  return out.readFloatLE(0);
}
const vecDot = (type) => dot(type, blocksOf(type).x, blocksOf(TYPES[type][3]).x, 1024);

/** JSON has neither NaN nor infinities. */
const number = (x) => (Number.isFinite(x) ? Number(x.toPrecision(9)) : String(x));

/** Of hostile rows: their dequantised bytes, and their products as weights, as activations, and with themselves. */
function hostile(type) {
  const rows = HOSTILE.filter((name) => type !== 'iq4_nl' || !hasZeroBlock(ROWS[name])), other = TYPES[type][3], plain = ROWS['gaussian 1'];
  return Object.fromEntries(rows.map((name) => {
    const [w, x] = [quantizeRef(type, ROWS[name]), quantizeRef(other, ROWS[name])], [w1, x1] = [quantizeRef(type, plain), quantizeRef(other, plain)];
    return [name, [hash(oneNaN(toFloat(type, w, N))), number(dot(type, w, x1, N)), number(dot(type, w1, x, N)), number(dot(type, w, x, N))]];
  }));
}

/** Of blocks with awkward scales: the same, products with an ordinary row. */
function scaled(type) {
  const [id, elements, bytes, other] = TYPES[type] ?? READ_ONLY[type], y = other && quantizeRef(other, ROWS['gaussian 1'].slice(0, 256));
  return scaledBlocks(type, bytes, SEED + id).map((x) => [hash(oneNaN(toFloat(type, x, elements))), ...(other ? [number(dot(type, x, y, elements))] : [])]);
}

const show = { ref: (type, row) => quantizeRef(type, ROWS[row]), imatrix: (type, row) => quantizeImatrix(type, ROWS[row]), dequantize };
if (option === '--show') {
  console.log(show[wanted[0]](wanted[1], wanted[2]).toString('hex').replace(/(.{64})/g, '$1\n'));
  process.exit(0);
}

const golden = { source: '@node-llama-cpp/linux-x64 3.22.1', n: N, ref: {}, imatrix: {}, below_powers: hash(quantizeRef('mxfp4', BELOW_POWERS)), dequantize: {}, vec_dot: {} };
for (const [type, [, , , dot, search]] of Object.entries(TYPES)) {
  const rows = Object.entries(ROWS).filter(([, x]) => type !== 'iq4_nl' || !hasZeroBlock(x));
  golden.ref[type] = Object.fromEntries(rows.map(([name, x]) => [name, hash(quantizeRef(type, x))]));
  if (search) golden.imatrix[type] = Object.fromEntries(Object.entries(ROWS).map(([name, x]) => [name, hash(quantizeImatrix(type, x))]));
  if (dot) golden.vec_dot[type] = vecDot(type);
  if (type !== 'q8_1') golden.dequantize[type] = hash(dequantize(type));
}
for (const type of Object.keys(READ_ONLY)) golden.dequantize[type] = hash(dequantize(type));
golden.hostile = Object.fromEntries(Object.keys(TYPES).filter((type) => TYPES[type][3]).map((type) => [type, hostile(type)]));
golden.scaled = Object.fromEntries([...Object.keys(TYPES).filter((type) => type !== 'q8_1'), ...Object.keys(READ_ONLY)].map((type) => [type, scaled(type)]).filter(([, blocks]) => blocks.length > 0));
// A line for each list, so that a difference can be read.
writeFileSync(new URL('./formats.json', import.meta.url), JSON.stringify(golden, null, 1).replace(/\[[^\][]*\]/g, (list) => list.replace(/\s+/g, ' ')) + '\n');
