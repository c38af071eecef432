/**
 * Recurrent layers in f64, token by token: from a layer's normed states to the values added to the
 * residual.
 */
type Vec = Float64Array;

/** The parts of a model that mixers read. */
export interface Model {
  linear(x: Vec, name: string): Vec;
  rows(name: string): Vec[];
  vector(name: string): Vec | undefined;
  num(key: string, otherwise: number): number;
  raw(key: string): unknown;
  rms(x: Vec, weight?: Vec, eps?: number): Vec;
  readonly eps: number;
}

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const silu = (x: number) => x * sigmoid(x);
const softplus = (x: number) => Math.log1p(Math.exp(x));
const zeros = (n: number) => new Float64Array(n);
const dot = (a: Vec, b: Vec) => a.reduce((s, v, i) => s + v * b[i], 0);

/** The mixer of a layer, recognised by its tensors; undefined if it has none. */
export function mixerOf(m: Model, has: (name: string) => boolean, b: string): ((xs: Vec[]) => Vec[]) | undefined {
  const { linear, rows, vector, num, rms } = m;
  const dState = num('ssm.state_size', 0);
  const dInner = num('ssm.inner_size', 0);
  const nHead = num('ssm.time_step_rank', 0);
  const groups = num('ssm.group_count', 1);

  /** Causal convolution per channel: its last values, oldest first, times its row of weights. */
  const convolve = (xs: Vec[], name: string): Vec[] =>
    xs.map((_, t) =>
      Float64Array.from(rows(`${name}.weight`), (w, c) =>
        w.reduce((s, v, k) => s + v * (xs[t - w.length + 1 + k]?.[c] ?? 0), vector(`${name}.bias`)?.[c] ?? 0),
      ),
    );
  const convolved = (xs: Vec[]): Vec[] => convolve(xs, `${b}ssm_conv1d`).map((x) => x.map(silu));

  if (has(`${b}shortconv.conv.weight`))
    return (xs) => {
      const parts = xs.map((x) => linear(x, `${b}shortconv.in_proj`));
      const n = parts[0].length / 3;
      const ys = convolve(
        parts.map((p) => p.slice(0, n).map((v, i) => v * p[2 * n + i])),
        `${b}shortconv.conv`,
      );
      return ys.map((y, t) => linear(y.map((v, i) => v * parts[t][n + i]), `${b}shortconv.out_proj`)); // prettier-ignore
    };

  if (has(`${b}ssm_x.weight`))
    return (xs) => {
      const parts = xs.map((x) => linear(x, `${b}ssm_in`));
      const inputs = convolved(parts.map((p) => p.slice(0, dInner)));
      const A = rows(`${b}ssm_a`);
      const D = vector(`${b}ssm_d`)!;
      const states = A.map((row) => zeros(row.length));
      const ready = (v: Vec) => (m.raw('ssm.dt_b_c_rms') ? rms(v) : v);
      return inputs.map((x, t) => {
        const all = linear(x, `${b}ssm_x`);
        const dt = linear(ready(all.slice(0, nHead)), `${b}ssm_dt`).map(softplus);
        const B = ready(all.slice(nHead, nHead + dState));
        const C = ready(all.slice(nHead + dState));
        const y = x.map((v, c) => {
          states[c] = states[c].map((s, j) => s * Math.exp(dt[c] * A[c][j]) + dt[c] * v * B[j]);
          return (dot(states[c], C) + v * D[c]) * silu(parts[t][dInner + c]);
        });
        return linear(y, `${b}ssm_out`);
      });
    };

  // Qwen 3 Next: heads that share a key are neighbours, and betas and alphas come from one matrix.
  const together = has(`${b}ssm_ba.weight`);
  if (together || has(`${b}ssm_alpha.weight`))
    return (xs) => {
      const share = nHead / groups;
      const keyOf = (h: number) => (together ? Math.floor(h / share) : h % groups);
      const ofHeads = (x: Vec, name: string, second: number) =>
        together ? linear(x, `${b}ssm_ba`).filter((_, i) => Math.floor(i / share) % 2 === second) : linear(x, `${b}ssm_${name}`);
      const n = dState;
      const keys = n * groups;
      const unit = (v: Vec) => v.map((x) => x / Math.sqrt(dot(v, v) + m.eps));
      const qkv = convolved(xs.map((x) => linear(x, `${b}attn_qkv`)));
      const states = Array.from({ length: nHead }, () => Array.from({ length: n }, () => zeros(n)));
      return xs.map((x, t) => {
        const z = linear(x, `${b}attn_gate`);
        const beta = ofHeads(x, 'beta', 0).map(sigmoid);
        const g = ofHeads(x, 'alpha', 1).map((a, h) => softplus(a + vector(`${b}ssm_dt.bias`)![h]) * vector(`${b}ssm_a`)![h]);
        const out = zeros(dInner);
        for (let h = 0; h < nHead; h++) {
          const at = keyOf(h) * n;
          const q = unit(qkv[t].slice(at, at + n));
          const k = unit(qkv[t].slice(keys + at, keys + at + n));
          const y = zeros(n);
          states[h].forEach((row, j) => {
            const kept = row.map((v) => v * Math.exp(g[h]));
            const delta = (qkv[t][2 * keys + h * n + j] - dot(kept, k)) * beta[h];
            states[h][j] = kept.map((v, i) => v + delta * k[i]);
            y[j] = dot(states[h][j], q) / Math.sqrt(n);
          });
          out.set(
            rms(y, vector(`${b}ssm_norm.weight`)).map((v, i) => v * silu(z[h * n + i])),
            h * n,
          );
        }
        return linear(out, `${b}ssm_out`);
      });
    };

  if (has(`${b}ssm_in.weight`))
    return (xs) => {
      const dim = dInner / nHead;
      const width = dInner + 2 * groups * dState;
      const parts = xs.map((x) => linear(x, `${b}ssm_in`));
      const inputs = convolved(parts.map((p) => p.slice(dInner, dInner + width)));
      const states = Array.from({ length: dInner }, () => zeros(dState));
      return inputs.map((xBC, t) => {
        const y = zeros(dInner);
        for (let c = 0; c < dInner; c++) {
          const h = Math.floor(c / dim);
          const at = dInner + Math.floor(h / (nHead / groups)) * dState;
          const dt = softplus(parts[t][dInner + width + h] + vector(`${b}ssm_dt.bias`)![h]);
          const decay = Math.exp(dt * rows(`${b}ssm_a`)[h][0]);
          states[c] = states[c].map((s, j) => s * decay + dt * xBC[c] * xBC[at + j]);
          const C = xBC.slice(at + groups * dState, at + groups * dState + dState);
          y[c] = (dot(states[c], C) + xBC[c] * rows(`${b}ssm_d`)[h][0]) * silu(parts[t][c]);
        }
        const n = dInner / groups;
        const weights = has(`${b}ssm_norm.weight`) ? rows(`${b}ssm_norm.weight`) : undefined;
        if (weights) weights.forEach((w, i) => y.set(rms(y.slice(i * n, (i + 1) * n), w), i * n));
        return linear(y, `${b}ssm_out`);
      });
    };
  return undefined;
}
