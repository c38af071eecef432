/** Mels and encoders of sounds once more, in f64, one operation after the other. */
import { fromF16, toF16 } from '../../src/core/float16.ts';
import { CHANNELS, HEADS, LAYERS, MELS, STACK, W, weightsOf, type Weight } from './projector-file.ts';

type Rows = readonly Float64Array[];

const erf = (x: number): number => {
  if (Math.abs(x) > 4) return Math.sign(x);
  let [sum, term] = [x, x];
  for (let n = 1; n < 100; n++) sum += (term *= (-x * x) / n) / (2 * n + 1);
  return (2 * sum) / Math.sqrt(Math.PI);
};
const gelu = (x: number): number => 0.5 * x * (1 + erf(x / Math.SQRT2));
const silu = (x: number): number => x / (1 + Math.exp(-x));
const half = (x: number): number => fromF16(toF16(x));

/** log10 mels of a padded sound, a row for each frame, by sums of sines and cosines. */
export function slowMels(x: Float32Array, nMels: number): Float64Array[] {
  const step = Math.log(6.4) / 27;
  const hz = (mel: number): number => (mel < 15 ? (mel * 200) / 3 : 1000 * Math.exp((mel - 15) * step));
  const top = 15 + Math.log(8) / step;
  const edges = Array.from({ length: nMels + 2 }, (_, i) => hz((top * i) / (nMels + 1)));
  return Array.from({ length: Math.floor((x.length - 400) / 160) + 1 }, (_, t) => {
    const power = Array.from({ length: 201 }, (_, k) => {
      let [re, im] = [0, 0];
      for (let i = 0; i < 400; i++) {
        const v = x[t * 160 + i] * 0.5 * (1 - Math.cos((2 * Math.PI * i) / 400));
        re += v * Math.cos((2 * Math.PI * i * k) / 400);
        im -= v * Math.sin((2 * Math.PI * i * k) / 400);
      }
      return re * re + im * im;
    });
    return Float64Array.from({ length: nMels }, (_, m) => {
      const [low, centre, high] = edges.slice(m, m + 3);
      const weight = (f: number): number => Math.max(0, Math.min((f - low) / (centre - low), (high - f) / (high - centre)));
      const sum = power.reduce((a, p, k) => a + (p * weight(40 * k) * 2) / (high - low), 0);
      return Math.log10(Math.max(sum, 2 ** -24));
    });
  });
}

/** A reference of the projector file of a type. */
export function slowEncoder(type: string): {
  /** States after all layers, of mels with a row for each frame. All types but qwen3a have the same. */
  states(mels: Rows): Rows;
  /** Embeddings of states. */
  embeddings(states: Rows): Rows;
} {
  const all = weightsOf(type);
  const get = (name: string): Weight => all.get(name)!;
  const valuesOf = ({ values, half: rounded }: Weight): Float64Array => Float64Array.from(values, (x) => (rounded ? half(x) : x));
  const map = (rows: Rows, f: (x: number) => number): Rows => rows.map((row) => row.map(f));
  const add = (a: Rows, b: Rows): Rows => a.map((row, i) => row.map((x, j) => x + b[i][j]));
  const linear = (rows: Rows, name: string): Rows => {
    const w = valuesOf(get(`${name}.weight`));
    const n = rows[0].length;
    const bias = all.get(`${name}.bias`)?.values;
    return rows.map((row) =>
      Float64Array.from({ length: w.length / n }, (_, o) => row.reduce((s, x, i) => s + x * w[o * n + i], bias?.[o] ?? 0)),
    );
  };
  const normed = (rows: Rows, name: string, isRms = false): Rows => {
    const [weight, bias] = [get(`${name}.weight`).values, all.get(`${name}.bias`)?.values];
    return rows.map((row) => {
      const mean = isRms ? 0 : row.reduce((a, x) => a + x, 0) / row.length;
      const scale = 1 / Math.sqrt(row.reduce((a, x) => a + (x - mean) ** 2, 0) / row.length + (isRms ? 1e-6 : 1e-5));
      return row.map((x, i) => (x - mean) * scale * weight[i] + (bias?.[i] ?? 0));
    });
  };
  const conv1 = (given: Rows, name: string, stride: number): Rows => {
    const [w, bias] = [valuesOf(get(`${name}.weight`)), get(`${name}.bias`).values];
    const rows = map(given, half);
    const n = rows[0].length;
    return Array.from({ length: Math.floor((rows.length - 1) / stride) + 1 }, (_, t) =>
      Float64Array.from(bias, (b, o) => {
        let sum = b;
        for (let k = 0; k < 3; k++) rows[t * stride + k - 1]?.forEach((x, c) => (sum += x * w[(o * n + c) * 3 + k]));
        return gelu(sum);
      }),
    );
  };
  /** planes [channel][mel][time] */
  const conv2 = (planes: readonly Rows[], name: string): readonly Rows[] => {
    const [w, bias] = [valuesOf(get(`${name}.weight`)), get(`${name}.bias`).values];
    const [h, l] = [planes[0].length, planes[0][0].length];
    return Array.from(bias, (b, o) =>
      Array.from({ length: Math.ceil(h / 2) }, (_, y) =>
        Float64Array.from({ length: Math.ceil(l / 2) }, (_, t) => {
          let sum = b;
          planes.forEach((plane, c) => {
            for (let k = 0; k < 9; k++) {
              const x = plane[2 * y + Math.floor(k / 3) - 1]?.[2 * t + (k % 3) - 1];
              if (x !== undefined) sum += half(x) * w[(o * planes.length + c) * 9 + k];
            }
          });
          return gelu(sum);
        }),
      ),
    );
  };
  const attention = (rows: Rows, b: string): Rows => {
    const [q, k, v] = ['q', 'k', 'v'].map((part) => linear(rows, `${b}attn_${part}`));
    const dim = W / HEADS;
    const e = new Float64Array(rows.length);
    return q.map((row) => {
      const out = new Float64Array(W);
      for (let from = 0; from < W; from += dim) {
        let sum = 0;
        for (let t = 0; t < k.length; t++) {
          let score = 0;
          for (let i = from; i < from + dim; i++) score += row[i] * k[t][i];
          sum += e[t] = Math.exp(score / Math.sqrt(dim));
        }
        for (let t = 0; t < v.length; t++) for (let i = from; i < from + dim; i++) out[i] += (e[t] / sum) * v[t][i];
      }
      return out;
    });
  };
  const layers = (given: Rows): Rows => {
    let x = given;
    for (let il = 0; il < LAYERS; il++) {
      const b = `a.blk.${il}.`;
      x = add(x, linear(attention(normed(x, `${b}ln1`), b), `${b}attn_out`));
      x = add(x, linear(map(linear(normed(x, `${b}ln2`), `${b}ffn_up`), gelu), `${b}ffn_down`));
    }
    return x;
  };
  const averaged = (x: Rows): Rows => Array.from({ length: x.length >> 1 }, (_, i) => x[2 * i].map((a, j) => (a + x[2 * i + 1][j]) / 2));
  const placed = (rows: Rows, n: number): Rows =>
    rows.map((row, i) => row.map((x, j) => x + get('a.position_embd.weight').values[(i % n) * W + j]));
  const stacked = (rows: Rows): Rows =>
    Array.from({ length: Math.floor(rows.length / STACK[type]) }, (_, i) =>
      Float64Array.from(rows.slice(i * STACK[type], (i + 1) * STACK[type]).flatMap((row) => [...row])),
    );

  const pieces = (mels: Rows): Rows => {
    const rows: Float64Array[] = [];
    for (let from = 0; from < mels.length; from += 100) {
      let planes: readonly Rows[] = [
        Array.from({ length: MELS }, (_, m) => Float64Array.from({ length: 100 }, (_, t) => mels[from + t][m])),
      ];
      for (const i of [1, 2, 3]) planes = conv2(planes, `a.conv2d.${i}`);
      for (let t = 0; t < 13; t++)
        rows.push(Float64Array.from(Array.from({ length: CHANNELS }, (_, c) => planes[c].map((row) => row[t])).flat()));
    }
    return placed(linear(rows, 'a.conv_out'), 13);
  };

  return {
    states: (mels) => layers(type === 'qwen3a' ? pieces(mels) : placed(conv1(conv1(mels, 'a.conv1d.1', 1), 'a.conv1d.2', 2), 1500)),
    embeddings(states) {
      const x = normed(type === 'voxtral' || type === 'qwen2a' ? averaged(states) : states, 'a.post_ln');
      if (type === 'qwen3a') return linear(map(linear(x, 'mm.a.mlp.1'), gelu), 'mm.a.mlp.2');
      if (type === 'qwen2a') return linear(x, 'mm.a.fc');
      if (type === 'voxtral') return linear(map(linear(stacked(x), 'mm.a.mlp.1'), gelu), 'mm.a.mlp.2');
      const y = linear(normed(stacked(x), 'mm.a.norm_pre', true), 'mm.a.mlp.1');
      const gated = y.map((row) => row.subarray(0, row.length / 2).map((a, i) => a * silu(row[row.length / 2 + i])));
      return linear(normed(gated, 'mm.a.norm_mid', true), 'mm.a.mlp.2');
    },
  };
}
