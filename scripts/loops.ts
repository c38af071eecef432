/**
 * Loops that `npm run generate` writes from templates (assembly/templates/): the one table of their
 * instances. A new tile is a row here (CONTRIBUTING.md, "A new loop").
 */
import { expand, type Values } from './loop-template.ts';
import { source } from './kernel-source.ts';
import { ATTENTION_ROWS } from '../src/graph/layout.ts';

interface Loop {
  /** Name of the template, below assembly/templates/. */
  readonly template: string;
  readonly values: Values;
}

/**
 * By path below assembly/. ROWS and COLS: the rows and columns of the sums that a loop keeps (in
 * products, ROWS is a multiple of 8).
 */
export const LOOPS: Readonly<Record<string, Loop>> = {
  'matmul/tile_8x4': { template: 'tile', values: { ROWS: 8, COLS: 4 } },
  'matmul/gemm_8x4': { template: 'gemm', values: { ROWS: 8, COLS: 4 } },
  'matmul/gemm_8x4_i16': { template: 'gemm_i16', values: { ROWS: 8, COLS: 4 } },
  'matmul/gemm_8x4_nibbles': { template: 'gemm_nibbles', values: { ROWS: 8, COLS: 4 } },
  'matmul/gemm_8x4_bits': { template: 'gemm_bits', values: { ROWS: 8, COLS: 4 } },
  'matmul/gemm_8x4_grid': { template: 'gemm_grid', values: { ROWS: 8, COLS: 4 } },
  'matmul/gemm_f32_8x4': { template: 'gemm_f32', values: { ROWS: 8, COLS: 4 } },
  'matmul/gemm_16xn': { template: 'gemm_16xn', values: { ROWS: 8 } },
  'matmul/gemv_f32_16x1': { template: 'gemv_f32', values: {} },
  'matmul/gemv_16x1': { template: 'gemv', values: {} },
  'matmul/gemv_16x1_bits': { template: 'gemv_bits', values: {} },
  'matmul/gemv_16x1_nvfp4': { template: 'gemv_nvfp4', values: {} },
  'matmul/gemv_16x1_q2_K': { template: 'gemv_q2_K', values: {} },
  'matmul/gemv_16x1_q6_K': { template: 'gemv_q6_K', values: {} },
  'matmul/gemv_16x1_s16': { template: 'gemv_s16', values: {} },
  'matmul/gemv_16x1_signs': { template: 'gemv_signs', values: {} },
  'matmul/gemv_16x1_trits': { template: 'gemv_trits', values: {} },
  'ops/attention_tile': { template: 'attention_tile', values: { ROWS: ATTENTION_ROWS.tile } },
  'ops/attention_values': { template: 'attention_values', values: {} },
  'ops/fwht_mix': { template: 'fwht_mix', values: {} },
  'ops/fwht_passes': { template: 'fwht_passes', values: {} },
  'ops/recurrent_rows': { template: 'recurrent_rows', values: {} },
};

const shown = (values: Values): string =>
  Object.entries(values)
    .map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
    .join(', ');

/** Text of a loop, without formatting. */
export function loopText({ template, values }: Loop): string {
  const path = `assembly/templates/${template}.ts`;
  const of = Object.keys(values).length > 0 ? ` for ${shown(values)}` : '';
  return `// Generated from ${path}${of} by \`npm run generate\`: edit the template.\n${expand(source(path), values, path)}`;
}
