/**
 * Effect of the activations' type on the perplexity of a model with MXFP4 weights.
 *
 * Usage:
 *
 *   node --import tsx bench/mx-activations.ts --model MXFP4.gguf --file TEXT [--ctx 256]
 *     [--chunks 16] [--write]
 *
 * `quantlet quantize F32.gguf MXFP4.gguf MXFP4` makes such a file. The 8-bit activations are those
 * of the packed products (assembly/matmul/act.ts), with an f32 scale per 32. MX activations have a
 * power of two per 32. Each row is a process of its own, which runs `quantlet perplexity` over a
 * graph that casts the activations of MX weights to the type first.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { resolve } from 'node:path';
import type { Architecture } from '../src/arch/architecture.ts';
import { ARCHITECTURES } from '../src/arch/registry.ts';
import { perplexity } from '../src/cli/perplexity.ts';
import { cast } from '../src/graph/ops.ts';
import type { Tensor } from '../src/graph/tensor.ts';
import { isMx, rowSize, TYPE, type TypeName } from '../src/type-traits.ts';
import { describeMachine, flags, machine, machineName, table, writeResult } from './support.ts';

const options = flags('perplexity by the type of activations', {
  model: '',
  file: '',
  ctx: '256',
  chunks: '16',
  act: '',
  write: false,
});

/** Types of activations, and their names in the table. */
const ROWS: readonly (readonly [act: TypeName | 'f32' | 'packed', name: string])[] = [
  ['f32', 'f32'],
  ['packed', '8 bits, f32 scale (packed products)'],
  ['mxfp8_e4m3', 'MXFP8 E4M3'],
  ['mxfp8_e5m2', 'MXFP8 E5M2'],
  ['mxfp4', 'MXFP4'],
];

/** The architecture, with the activations of MX weights cast to `act`. */
function withActivations({ name, build }: Architecture, act: TypeName): Architecture {
  return {
    name,
    build(hp, g) {
      const known = new Map<Tensor, Tensor>();
      const changed = (t: Tensor): Tensor => {
        const found = known.get(t);
        if (found) return found;
        const src = t.src.map((s) => s && changed(s));
        const isProduct = (t.op === 'mul_mat' || t.op === 'mul_mat_id') && isMx(t.src[0]!.type);
        if (isProduct && act !== 'f32') src[1] = cast(src[1]!, act);
        const params = isProduct && act === 'f32' ? { ...t.params, f32: 1 } : t.params;
        const viewOf = t.viewOf && changed(t.viewOf);
        const same = params === t.params && viewOf === t.viewOf && src.every((s, i) => s === t.src[i]);
        const now = same ? t : { ...t, src, params, viewOf };
        known.set(t, now);
        return now;
      };
      return changed(build(hp, { ...g, expand: (...nodes) => g.expand(...nodes.map(changed)) }));
    },
  };
}

if (options.act) {
  const all = ARCHITECTURES as Architecture[];
  if (options.act !== 'packed') all.splice(0, all.length, ...all.map((a) => withActivations(a, options.act as TypeName)));
  const { model, file, ctx, chunks } = options;
  await perplexity.run(
    ['-m', model, '-f', file, '-c', ctx, '--chunks', chunks, '-t', '1', '--build', 'simd', '--json'],
    new AbortController().signal,
  );
} else {
  const self = fileURLToPath(import.meta.url);
  const rows = ROWS.map(([act, name]) => {
    const args = ['--model', resolve(options.model), '--file', resolve(options.file), '--ctx', options.ctx, '--chunks', options.chunks];
    const out = execFileSync(process.execPath, ['--import', 'tsx', self, ...args, '--act', act], { stdio: ['ignore', 'pipe', 'inherit'] });
    return { act, name, ...(JSON.parse(String(out)) as { ppl: number; ppl_stderr: number; tokens: number }) };
  });
  const bits = (act: string): string => {
    const type = act === 'packed' ? undefined : TYPE[act as TypeName];
    return (type ? (8 * rowSize(type, 32)) / 32 : 9).toString();
  };
  const shown = table(
    ['activations', 'bits', 'perplexity', 'to f32'],
    rows.map(({ act, name, ppl }) => [name, bits(act), ppl.toFixed(4), `${(100 * (ppl / rows[0].ppl - 1)).toFixed(2)} %`]),
  );
  const text = `# Perplexity of MXFP4 weights by the type of activations

${rows[0].tokens} tokens in windows of ${options.ctx}, standard error ${rows[0].ppl_stderr.toFixed(4)}; ${describeMachine(machine())}

${shown}
`;
  console.log(text);
  if (options.write) writeResult(`mx-activations-${machineName(machine())}.md`, text);
}
