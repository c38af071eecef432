import type { GGUFType, GGUFValue } from '../../src/gguf/types.ts';
import type { WriteValue } from '../../src/gguf/write.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import type { TypeTraits } from '../../src/type-traits.ts';
import { TYPE } from '../../src/type-traits.ts';

/** A model with everything that the choice of types depends on, and hardly any weights. */
export interface MixModelSpec {
  readonly name: string;
  readonly arch: string;
  readonly nLayer: number;
  readonly nHead: number;
  readonly nHeadKv: number;
  readonly nExpert: number;
  readonly tied: boolean;
  /** Columns of the matrices, and of ffn_down. */
  readonly nEmbd: number;
  readonly nFf: number;
  /** Tensors of a block. Their dimensions beyond ne[0] are minimal. */
  readonly block: readonly string[];
  readonly outside: readonly string[];
}

const LLAMA_BLOCK = ['attn_norm', 'attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_norm', 'ffn_gate', 'ffn_up', 'ffn_down'];
const EXPERT_BLOCK = [
  'attn_norm',
  'attn_q',
  'attn_k',
  'attn_v',
  'attn_output',
  'ffn_norm',
  'ffn_gate_inp',
  'ffn_gate_exps',
  'ffn_up_exps',
  'ffn_down_exps',
];
const FUSED_BLOCK = ['attn_norm', 'attn_qkv', 'attn_output', 'ffn_up', 'ffn_down'];
const OUTSIDE = ['token_embd', 'output_norm'];
/** Architecture of projectors. Native aborts for some of their mixes. */
export const PROJECTOR = 'clip';

const spec = (
  name: string,
  arch: string,
  nLayer: number,
  nHead: number,
  nHeadKv: number,
  more: Partial<MixModelSpec> = {},
): MixModelSpec => ({
  name,
  arch,
  nLayer,
  nHead,
  nHeadKv,
  nExpert: 0,
  tied: false,
  nEmbd: 256,
  nFf: 256,
  block: LLAMA_BLOCK,
  outside: OUTSIDE,
  ...more,
});

export const MIX_MODELS: readonly MixModelSpec[] = [
  spec('llama-32', 'llama', 32, 32, 8),
  spec('llama-70B', 'llama', 80, 64, 8),
  spec('llama-80-mha', 'llama', 80, 8, 8),
  spec('llama-tied', 'llama', 22, 4, 2, { tied: true }),
  spec('llama-5', 'llama', 5, 4, 4),
  spec('mixtral', 'llama', 32, 32, 8, { nExpert: 8, block: EXPERT_BLOCK }),
  spec('qwen3moe', 'qwen3moe', 48, 32, 4, { nExpert: 16, block: EXPERT_BLOCK }),
  spec('qwen2-72B', 'qwen2', 80, 64, 8),
  spec('falcon', 'falcon', 32, 8, 1, { block: FUSED_BLOCK }),
  spec('phi3', 'phi3', 32, 32, 32, { block: FUSED_BLOCK }),
  spec('gemma2', 'gemma2', 26, 8, 4, { tied: true }),
  spec('bert', 'bert', 12, 12, 12, {
    tied: true,
    block: ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_up', 'ffn_down', 'layer_output_norm'],
    outside: ['token_embd', 'position_embd', 'token_types', 'token_embd_norm'],
  }),
  spec('rows-of-96', 'llama', 9, 4, 2, { nEmbd: 96, nFf: 96 }),
  spec('rows-of-172', 'llama', 4, 4, 2, { nFf: 172 }),
  ...[
    ['projector', 'attn_q attn_k attn_v'],
    ['projector-qkv', 'attn_qkv'],
  ].map(([name, attention]) =>
    spec(name, PROJECTOR, 27, 16, 16, {
      tied: true,
      block: ['attn_q_norm', ...attention.split(' '), 'attn_out', 'ffn_gate', 'ffn_up', 'ffn_down'],
      outside: ['v.patch_embd', 'v.position_embd', 'v.post_norm', 'mm.0', 'mm.patch_merger', 'mm.input_projection', 'token_embd'],
      nFf: 288,
    }),
  ),
];

const scalar = (type: GGUFType, value: GGUFValue): WriteValue => ({ type, value });

export const mixModelFile = (
  s: MixModelSpec,
  weights: (name: string, n: number) => Float32Array = (_, n) => new Float32Array(n),
): Uint8Array => {
  const key = (name: string): string => `${s.arch}.${name}`;
  const metadata = new Map<string, WriteValue>([
    ['general.architecture', scalar('str', s.arch)],
    [key('block_count'), scalar('u32', s.nLayer)],
    [key('context_length'), scalar('u32', 64)],
    [key('embedding_length'), scalar('u32', s.nEmbd)],
    [key('feed_forward_length'), scalar('u32', s.nFf)],
    [key('vocab_size'), scalar('u32', 2)],
    [key('attention.head_count'), scalar('u32', s.nHead)],
    [key('attention.head_count_kv'), scalar('u32', s.nHeadKv)],
    [key('attention.layer_norm_rms_epsilon'), scalar('f32', 1e-5)],
    [key('attention.layer_norm_epsilon'), scalar('f32', 1e-5)],
    [key('attention.causal'), scalar('bool', s.arch !== 'bert')],
    [key('attention.sliding_window'), scalar('u32', 32)],
    [key('rope.scaling.original_context_length'), scalar('u32', 64)],
  ]);
  if (s.nExpert > 0) {
    metadata.set(key('expert_count'), scalar('u32', s.nExpert));
    metadata.set(key('expert_used_count'), scalar('u32', 2));
    metadata.set(key('expert_feed_forward_length'), scalar('u32', s.nFf));
  }
  const names = [
    ...s.outside,
    ...(s.tied ? [] : ['output']),
    ...Array.from({ length: s.nLayer }, (_, i) => s.block.map((part) => `${s.arch === PROJECTOR ? 'v.' : ''}blk.${i}.${part}`)).flat(),
  ];
  return writeGGUF(
    metadata,
    names.map((name) => {
      const ne0 = name.includes('ffn_down') ? s.nFf : s.nEmbd;
      const ne = name.endsWith('norm') ? [ne0] : name.endsWith('_exps') ? [ne0, 2, s.nExpert] : [ne0, 2];
      return {
        name: `${name}.weight`,
        type: TYPE.f32,
        ne,
        data: new Uint8Array(
          weights(
            `${name}.weight`,
            ne.reduce((a, b) => a * b, 1),
          ).buffer,
        ),
      };
    }),
  );
};

export interface MixCase {
  readonly ftype: string;
  readonly options?: 'pure' | 'leave-output' | 'imatrix' | 'output-q5_0' | 'embedding-q5_1';
}

/** File types that do not need an imatrix. */
export const EVERY: readonly string[] = [
  'Q4_0',
  'Q4_1',
  'Q5_0',
  'Q5_1',
  'Q8_0',
  'Q2_K',
  'Q3_K_S',
  'Q3_K_M',
  'Q3_K_L',
  'Q4_K_S',
  'Q4_K_M',
  'Q5_K_S',
  'Q5_K_M',
  'Q6_K',
  'IQ3_S',
  'IQ3_M',
  'IQ4_NL',
  'IQ4_XS',
  'MXFP4_MOE',
  'TQ1_0',
  'TQ2_0',
  'Q1_0',
  'Q2_0',
  'F16',
  'BF16',
  'F32',
];

/** File types that need an imatrix, or whose mix may depend on one. */
const IQ = ['IQ1_S', 'IQ1_M', 'IQ2_XXS', 'IQ2_XS', 'IQ2_S', 'IQ2_M', 'IQ3_XXS', 'IQ3_XS', 'IQ3_S', 'IQ3_M'];

export const MIX_CASES: readonly MixCase[] = [
  ...EVERY.map((ftype) => ({ ftype })),
  ...['Q2_K_S', 'Q4_0', 'Q5_0', 'IQ4_NL', 'IQ4_XS', 'Q4_K_M', ...IQ].map((ftype) => ({ ftype, options: 'imatrix' as const })),
  ...(['pure', 'leave-output', 'output-q5_0', 'embedding-q5_1'] as const).map((options) => ({ ftype: 'Q4_K_M', options })),
  { ftype: 'F16', options: 'output-q5_0' },
];

export const caseName = ({ ftype, options }: MixCase): string => (options ? `${ftype} ${options}` : ftype);

/**
 * A short summary of types by tensor: for each name without its block number, the types in order of
 * blocks, with repeats counted. Norms in f32, and tensors that all have the file's own type, are
 * left out.
 */
export const summarise = (tensors: Iterable<readonly [name: string, type: TypeTraits]>, own: TypeTraits): Record<string, string> => {
  const lists = new Map<string, string[]>();
  for (const [name, type] of tensors) {
    const short = name.replace(/^(v\.)?blk\.\d+\./, '').replace(/\.weight$/, '');
    const list = lists.get(short) ?? [];
    lists.set(short, list);
    list.push(type.name);
  }
  const short = (list: readonly string[]): string => {
    const runs: [string, number][] = [];
    for (const type of list) {
      const run = runs.at(-1);
      if (run?.[0] === type) run[1]++;
      else runs.push([type, 1]);
    }
    return runs.map(([type, n]) => (n > 1 ? `${type}*${n}` : type)).join(' ');
  };
  const plain = (name: string, list: readonly string[]): boolean =>
    list.every((type) => type === (name.endsWith('norm') ? 'f32' : own.name));
  return Object.fromEntries(
    [...lists]
      .filter(([name, list]) => !plain(name, list))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, list]) => [name, short(list)]),
  );
};
