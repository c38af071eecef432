/**
 * MiniCPM-V: SigLIP over slices of the picture. Up to 4.5, a resampler makes the same number of
 * tokens of each slice; 4.6 merges neighbouring patches, half of that between two layers.
 */
import { joined } from '../../encoder/transformer.ts';
import { add, gelu_erf } from '../../graph/elementwise-ops.ts';
import { get_rows, mul_mat } from '../../graph/ops.ts';
import { mean_of_rows } from '../../graph/row-ops.ts';
import type { Tensor } from '../../graph/tensor.ts';
import { reshape } from '../../graph/views.ts';
import { QuantletError } from '../../errors.ts';
import { getCount } from '../../gguf/metadata.ts';
import { oneImage, sliceSize, slicedImage, type ImageLayout } from '../layout.ts';
import type { VisionParams } from '../params.ts';
import { scaleFactor, type ProjectorType, type PromptPiece } from '../projector.ts';
import type { Tower } from '../tower.ts';

/** Dimensions of a head of the resampler. Files do not say it. */
const RESAMPLER_HEAD = 128;

/** Side of the table of positions, in which a slice of any size has its places. */
const BUCKETS = 70;

const VERSION = 'clip.minicpmv_version';
/** Versions whose slices are written as 2.6's; 2 is MiniCPM-V 2.5, and what old files mean by none. */
const SLICED = [3, 4, 5, 6, 100045];

/** @throws ERR_UNSUPPORTED_ARCH for a version that llama.cpp does not know either */
function versionOf({ gguf }: VisionParams): number {
  const version = getCount(gguf, VERSION, 0) || 2;
  if (version === 2 || SLICED.includes(version)) return version;
  throw new QuantletError(
    'ERR_UNSUPPORTED_ARCH',
    `metadata "${VERSION}" of mmproj is ${version}; expected one of ${[2, ...SLICED].join(', ')}`,
  );
}

/** Tokens of a slice. */
function queries(p: VisionParams): number {
  const usual = versionOf(p) === 2 ? 96 : 64;
  return getCount(p.gguf, 'clip.minicpmv_query_num', 0, 0, 1 << 15) || usual;
}

/** The overview, then the slices row by row, each between two tokens. */
function pieces({ grid: [columns, rows] }: ImageLayout, open: string, close: string): PromptPiece[] {
  const overview: PromptPiece[] = [{ token: '<image>' }, { image: columns * rows }, { token: '</image>' }];
  const slices = Array.from({ length: rows }, (_, y): PromptPiece[] => [
    ...Array.from({ length: columns }, (_, x): PromptPiece[] => [{ token: open }, { image: y * columns + x }, { token: close }]).flat(),
    ...(y + 1 < rows ? [{ token: '\n' }] : []),
  ]);
  return [...overview, ...slices.flat()];
}

const newPieces = (layout: ImageLayout): PromptPiece[] => pieces(layout, '<slice>', '</slice>');

/** MiniCPM-V 2.5 writes slices as overviews, all of them between two further tokens. */
function oldPieces(layout: ImageLayout): PromptPiece[] {
  const [open, image, close, ...slices] = pieces(layout, '<image>', '</image>');
  return [open, image, close, ...(slices.length > 0 ? [{ token: '<slice>' }, ...slices, { token: '</slice>' }] : [])];
}

/** Patches with the positions of their places; `places` has them in the order of x. */
function withBuckets(t: Tower, x: Tensor, places: Int32Array): Tensor {
  const { columns, rows } = t.grid;
  const bucket = (i: number, n: number): number => Math.floor((BUCKETS * i) / n);
  return t.withRows(
    x,
    places.map((place) => BUCKETS * bucket(Math.floor(place / columns), rows) + bucket(place % columns, columns)),
  );
}

/** Sines and cosines of column and row of each patch: f32 [width, patches]. */
function waves({ grid: { columns, places } }: Tower, width: number): Float32Array {
  const { fround } = Math;
  const n = width / 4;
  const omega = Array.from({ length: n }, (_, i) => fround(1 / fround(10000 ** fround(i / n))));
  const out = new Float32Array(width * places.length);
  places.forEach((place, i) =>
    [place % columns, Math.floor(place / columns)].forEach((at, axis) =>
      omega.forEach((frequency, j) => {
        const angle = fround(frequency * at);
        const to = width * i + 2 * n * axis + j;
        out[to] = Math.sin(angle);
        out[to + n] = Math.cos(angle);
      }),
    ),
  );
  return out;
}

/** The file's queries attend to all patches. */
function resampled(t: Tower, states: Tensor): Tensor {
  const query = t.weight('resampler.query');
  const v = t.norm(t.linear(states, 'resampler.kv'), 'resampler.ln_kv');
  const [width] = v.ne;
  const heads = width / RESAMPLER_HEAD;
  if (!Number.isInteger(heads) || query.ne[1] !== queries(t.p))
    throw new QuantletError(
      'ERR_TENSOR_SHAPE',
      `resampler.query of mmproj is [${query.ne.slice(0, 2).join(', ')}]; expected [a multiple of ${RESAMPLER_HEAD}, ${queries(t.p)}]`,
    );
  const k = add(v, t.input('places of patches', [width, t.nPatches], waves(t, width)));
  const headsOf = (x: Tensor, name: string): Tensor => {
    const y = t.linear(x, `resampler.attn.${name}`);
    return reshape(y, [RESAMPLER_HEAD, heads, y.ne[1]]);
  };
  const q = headsOf(t.norm(query, 'resampler.ln_q'), 'q');
  const x = t.attend(q, headsOf(k, 'k'), headsOf(v, 'v'), 'resampler.attn.out');
  return mul_mat(t.weight('resampler.proj.weight'), t.norm(x, 'resampler.ln_post'));
}

export const resampler: ProjectorType = {
  names: ['resampler'],
  norm: 'layer',
  mayExchange: true,
  merge: () => 1,
  layout: (p, width, height) => slicedImage(width, height, p.imageSize, p.patch),
  pieces: (layout, p) => (versionOf(p) === 2 ? oldPieces(layout) : newPieces(layout)),
  tokens: (_columns, _rows, p) => queries(p),
  build: (t) => resampled(t, t.vit(withBuckets(t, t.patches(), t.grid.places))),
};

/** 4: patches are merged 2 x 2 after a layer, and 2 x 2 at the end. 2: only at the end. */
const mergeOf = (p: VisionParams): number => scaleFactor(p, 4);

/** Order of a block of 4 x 4 in which its 4 squares of 2 x 2 are one after the other. */
const SQUARES = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15];

/** Patches attend within their square of 2 x 2, then each square becomes one. */
function squaresMerged(t: Tower, x: Tensor): Tensor {
  const n = t.nPatches;
  const name = (part: string): string => `v.vit_merger.${part}`;
  const runs = { first: Int32Array.from({ length: n }, (_, i) => i - (i % 4)), count: new Int32Array(n).fill(4) };
  const y = add(x, t.attention(t.norm(x, name('ln1')), name, undefined, runs));
  const mean = mean_of_rows(
    y,
    t.input(
      'first of squares',
      [n / 4],
      Int32Array.from({ length: n / 4 }, (_, i) => 4 * i),
    ),
    t.input('sizes of squares', [n / 4], new Int32Array(n / 4).fill(4)),
  );
  return add(t.mlp(t.norm(joined(y, 4), name('ds_ln')), name('ds_ffn_up'), name('ds_ffn_down')), mean);
}

/** The layer after which squares are merged. */
function mergeLayer(p: VisionParams): number {
  const [layer = 0] = p.numbers('wa_layer_indexes') ?? [];
  if (Number.isInteger(layer) && layer >= 0 && layer < p.nLayer) return layer;
  throw new QuantletError(
    'ERR_GGUF_INVALID',
    `metadata "clip.vision.wa_layer_indexes" of mmproj begins with ${layer}; expected a layer, of which there are ${p.nLayer}`,
  );
}

/** All layers, with squares merged on the way if the file's factor is 4. */
function layersOf(t: Tower): Tensor {
  const { places } = t.grid;
  if (mergeOf(t.p) === 2) return t.vit(withBuckets(t, t.patches(), places));
  const order = Int32Array.from(places, (_, i) => i - (i % 16) + SQUARES[i % 16]);
  const inSquares = get_rows(t.patches(), t.input('order of squares', [order.length], order));
  const start = t.normIfThere(
    withBuckets(
      t,
      inSquares,
      order.map((i) => places[i]),
    ),
    'v.pre_ln',
  );
  const first = mergeLayer(t.p) + 1;
  const merged = squaresMerged(t, t.layers(start, { layers: first }));
  return t.normIfThere(t.layers(merged, { first }), 'v.post_ln');
}

export const minicpmv46: ProjectorType = {
  names: ['minicpmv4_6'],
  norm: 'layer',
  mayExchange: true,
  merge(p) {
    const merge = mergeOf(p);
    if (merge === 2 || merge === 4) return merge;
    throw new QuantletError('ERR_GGUF_INVALID', `metadata "clip.vision.projector.scale_factor" of mmproj is ${merge}; expected 2 or 4`);
  },
  layout(p, width, height) {
    const { imageSize: size, patch } = p;
    const align = patch * mergeOf(p);
    if (mergeOf(p) === 2 && width * height <= size * size) return oneImage(sliceSize([width, height], size, align, true));
    return slicedImage(width, height, size, align);
  },
  pieces: newPieces,
  build(t) {
    const x = joined(layersOf(t), 4);
    return t.mlp(t.norm(x, 'mm.input_norm'), 'mm.up', 'mm.down', gelu_erf);
  },
};
