import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { folder, goldenModel, MADE } from './golden-models.ts';
import { readGguf } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import type { MetaValue } from '../reference/gguf.ts';
import type { Pooling } from '../reference/llm.ts';

interface Golden {
  readonly model: string;
  /** LoRA adapter; adapters are tested in test/model/lora.test.ts. */
  readonly lora?: object;
  readonly n_ctx: number;
  readonly ids: readonly number[];
  readonly offset: number;
  readonly rows?: readonly number[];
  readonly n_vocab?: number;
  readonly largest?: number;
  readonly greedy?: readonly number[];
  readonly margins?: readonly number[];
  readonly pooling?: Pooling;
  readonly count?: number;
}
const golden = JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8')) as { cases: Golden[] };
const raw = readFileSync(new URL('golden.f32', folder));
const values = new Float32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength));
const typeOf = (tensors: Iterable<{ type: number }>) => [...tensors].reduce((a, t) => Math.max(a, t.type), 0);

/**
 * Relative to the largest |logit|, by type of weights. The reference rounds where ggml rounds, so
 * that only f32 versus f64 remains (below 2e-6). Values at the border between two f16 or q8_0
 * values may still round differently; the bounds allow one such step (TOLERANCE in
 * test/support.ts).
 */
const tolerances: Record<number, number> = { 0: 1e-5, 1: 2e-3, 8: 3e-2, 39: 3e-2 };
/** gelu's table has f16 arguments and values, whatever the type of the weights. */
const geluTolerance = 2e-3;
const gelus = /gemma|starcoder|falcon(?!-h1)|(?<!neo-|euro)bert|t5(encoder)?$/;

describe('the scalar reference against native llama.cpp', () => {
  for (const c of golden.cases.filter((one) => !one.lora && !one.model.endsWith('-q4_0'))) {
    it(`${c.model}${c.pooling ? ` ${c.pooling}` : ''} n_ctx ${c.n_ctx}`, () => {
      const gguf = readGguf(goldenModel(c.model));
      const model = reference(gguf);
      const tolerance = Math.max(tolerances[typeOf(gguf.tensors.values())], gelus.test(c.model) ? geluTolerance : 0);
      let got: number[];
      let worst = { difference: 0, index: -1 };
      if (c.pooling) got = [...model.embed(c.ids, c.n_ctx, c.pooling)];
      else {
        const written = c.greedy!.slice(0, -1);
        const reads = c.model.startsWith('t5');
        const all = model.logits(reads ? c.ids : [...c.ids, ...written], c.n_ctx);
        got = c.rows!.flatMap((r) => [...all[r]]);
        // If an encoder reads the prompt, the text begins with the decoder's start token.
        const best = (reads ? model.logits(c.ids, c.n_ctx, written) : all.slice(c.ids.length - 1)).map((l) =>
          l.reduce((a, v, i) => (v > l[a] ? i : a), 0),
        );
        expect(best, `${c.model}: greedy ids, margins ${c.margins}`).toEqual(c.greedy);
      }
      const want = values.subarray(c.offset, c.offset + got.length);
      const largest = want.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
      got.forEach((v, i) => {
        const d = Math.abs(v - want[i]) / largest;
        if (!(d <= worst.difference)) worst = { difference: d, index: i };
      });
      if (process.env['SHOW_DIFFERENCES']) console.log(`${c.model} ${c.pooling ?? ''} ${worst.difference.toExponential(2)}`);
      expect(worst.difference, `${c.model}: index ${worst.index}, got ${got[worst.index]}, want ${want[worst.index]}`).toBeLessThanOrEqual(
        tolerance,
      );
    });
  }
});

/**
 * Metadata that must have an effect: model, key, another value. A golden file that a rule does not
 * change proves nothing about the rule.
 */
const rules: [model: string, key: string, value: MetaValue][] = [
  ['llama', 'rope.freq_base', 5000],
  ['llama', 'attention.layer_norm_rms_epsilon', 0.1],
  ['smollm3', 'rope.freq_base', 5000],
  ['qwen2', 'rope.freq_base', 10000],
  ['qwen2-yarn', 'rope.scaling.type', 'linear'],
  ['qwen2-yarn', 'rope.scaling.type', 'none'],
  ['qwen2-yarn', 'rope.scaling.factor', 2],
  ['qwen2-yarn', 'rope.scaling.original_context_length', 512],
  ['gemma2', 'attention.sliding_window', 9],
  ['gemma2', 'attention.sliding_window_pattern', 3],
  ['gemma2', 'attn_logit_softcapping', 50],
  ['gemma2', 'final_logit_softcapping', 30],
  ['gemma3', 'attention.sliding_window', 9],
  ['gemma3', 'attention.sliding_window_pattern', [true, false, true, true, true, false]],
  ['gemma3', 'rope.scaling.factor', 4],
  ['gemma3', 'rope.freq_base', 10000],
  ['gemma3', 'rope.freq_base_swa', 1e6],
  ['phi3-longrope', 'rope.scaling.attn_factor', 1],
  ['phi3-longrope', 'rope.scaling.original_context_length', 128],
  ['granite', 'embedding_scale', 1],
  ['granite', 'residual_scale', 1],
  ['granite', 'attention.scale', 0],
  ['granite', 'logit_scale', 1],
  ['granite', 'rope.scaling.finetuned', false],
  ['stablelm', 'rope.dimension_count', 8],
  ['starcoder2', 'rope.freq_base', 5000],
  ['bitnet', 'rope.freq_base', 5000],
  ['llama-moe', 'expert_used_count', 1],
  ['qwen3moe', 'expert_used_count', 3],
  ['smallthinker', 'expert_gating_func', 1],
  ['smallthinker', 'expert_group_used_count', 3],
  ['smallthinker', 'attention.sliding_window', 0],
  ['smallthinker', 'rope.freq_base_swa', 1e6],
  ['granitemoe', 'residual_scale', 1],
  ['granitemoe', 'attention.scale', 0],
  ['gpt-oss', 'attention.sliding_window', 9],
  ['gpt-oss', 'attention.sliding_window_pattern', 3],
  ['gpt-oss', 'rope.freq_base_swa', 50],
  ['deepseek2', 'expert_weights_scale', 1],
  ['deepseek2', 'rope.scaling.yarn_log_multiplier', 0],
  ['deepseek2-mla', 'expert_weights_norm', false],
  ['olmo', 'attention.clamp_kqv', 0],
  ['lfm2moe', 'expert_gating_func', 1],
  ['lfm2moe', 'expert_used_count', 1],
  ['qwen35moe', 'rope.dimension_sections', [1, 1, 1, 1]],
  ['qwen3next', 'rope.dimension_count', 16],
  ['nemotron_h_moe', 'expert_weights_norm', false],
  ['nemotron_h_moe', 'expert_weights_scale', 1],
  ['olmo2', 'attention.sliding_window', 9],
  ['olmo2', 'attention.sliding_window_pattern', 2],
  ['olmo2', 'rope.scaling.factor', 1],
  ['command-r', 'logit_scale', 1],
  ['cohere2', 'attention.sliding_window', 9],
  ['cohere2', 'attention.sliding_window_pattern', [true, true, true]],
  ['cohere2', 'logit_scale', 1],
  ['glm4', 'rope.dimension_count', 8],
  ['glm4-vision', 'rope.dimension_sections', [2, 1, 1, 0]],
  ['gemma4', 'attention.sliding_window', 9],
  ['gemma4', 'rope.freq_base', 50],
  ['gemma4', 'rope.freq_base_swa', 500],
  ['gemma4', 'final_logit_softcapping', 30],
  ['gemma3n', 'attention.sliding_window', 9],
  ['gemma3n', 'rope.freq_base_swa', 500],
  ['t5', 'decoder_start_token_id', 2],
  ['t5', 'decoder_block_count', 1],
  ['apertus', 'xielu.alpha_n', [0.1, 0.4]],
  ['apertus', 'xielu.alpha_p', [0.3, -0.6]],
  ['apertus', 'xielu.beta', [0.7, 0.5]],
  ['apertus', 'xielu.eps', [-1e-6, -1e-6]],
  ['mistral3', 'attention.temperature_scale', 0],
  ['mistral3', 'rope.scaling.original_context_length', 14],
  ['mistral3', 'rope.scaling.yarn_log_multiplier', 0],
  ['mistral3', 'rope.scaling.factor', 8],
  ['phi4-mini', 'rope.dimension_count', 8],
  ['qwen2vl', 'rope.dimension_sections', [2, 1, 1, 0]],
  ['qwen3vl', 'rope.dimension_sections', [3, 3, 2, 0]],
];
/** Optional tensors that must have an effect: model, tensor to leave out. */
const optional: [model: string, tensor: string][] = [
  ['llama-rope-freqs', 'rope_freqs.weight'],
  ['qwen2', 'blk.0.attn_q.bias'],
  ['qwen2', 'blk.1.attn_v.bias'],
  ['qwen3', 'blk.0.attn_q_norm.weight'],
  ['qwen3', 'blk.0.attn_k_norm.weight'],
  ['gemma2', 'blk.0.post_attention_norm.weight'],
  ['gemma3', 'blk.5.post_ffw_norm.weight'],
  ['gemma3', 'blk.0.attn_q_norm.weight'],
  ['phi3-longrope', 'rope_factors_short.weight'],
  ['starcoder2', 'blk.0.ffn_up.bias'],
  ['starcoder2', 'blk.0.attn_output.bias'],
  ['starcoder2', 'output_norm.bias'],
  ['stablelm-parallel', 'blk.0.attn_k_norm.weight'],
  // Scales of v and up are not listed: the norms before the last products cancel them.
  ['bitnet', 'blk.1.attn_q.scale'],
  ['bitnet', 'blk.1.attn_k.scale'],
  ['bitnet', 'blk.1.attn_output.scale'],
  ['bitnet', 'blk.1.ffn_gate.scale'],
  ['bitnet', 'blk.1.ffn_down.scale'],
  ['llama-moe', 'blk.1.ffn_gate_exps.scale'],
  ['llama-moe', 'blk.1.ffn_up_exps.scale'],
  ['llama-moe', 'blk.1.ffn_down_exps.scale'],
  ['qwen2moe', 'blk.0.ffn_gate_inp_shexp.weight'],
  ['qwen2moe', 'blk.0.ffn_up_shexp.weight'],
  ['granitemoe', 'blk.0.ffn_up_shexp.weight'],
  ['qwen3moe', 'blk.0.attn_q_norm.weight'],
  ['olmoe', 'blk.0.attn_k_norm.weight'],
  ['gpt-oss', 'blk.0.attn_sinks.weight'],
  ['gpt-oss', 'blk.1.attn_output.bias'],
  ['gpt-oss', 'blk.0.ffn_gate_inp.bias'],
  ['gpt-oss', 'blk.0.ffn_gate_exps.bias'],
  ['gpt-oss', 'blk.0.ffn_up_exps.bias'],
  ['gpt-oss', 'blk.0.ffn_down_exps.bias'],
  ['deepseek2-mla', 'blk.1.exp_probs_b.bias'],
  ['lfm2moe', 'blk.1.exp_probs_b.bias'],
  ['nemotron_h_moe', 'blk.1.exp_probs_b.bias'],
  ['qwen35moe', 'blk.0.ffn_gate_inp_shexp.weight'],
  ['qwen3next', 'blk.1.ffn_up_shexp.weight'],
  ['olmo2', 'blk.0.attn_q_norm.weight'],
  ['olmo2', 'blk.1.attn_k_norm.weight'],
  ['olmo2', 'blk.1.post_ffw_norm.weight'],
  ['exaone4', 'rope_freqs.weight'],
  ['gemma4', 'rope_freqs.weight'],
  ['gemma4', 'blk.1.layer_output_scale.weight'],
  ['gemma4', 'blk.4.attn_q_norm.weight'],
  ['exaone4', 'blk.0.attn_k_norm.weight'],
  ['exaone4', 'blk.0.post_attention_norm.weight'],
  ['glm4', 'blk.0.attn_q.bias'],
  ['glm4', 'blk.1.post_attention_norm.weight'],
  ['hunyuan-dense', 'blk.0.attn_q_norm.weight'],
  ['seed_oss', 'blk.1.attn_k.bias'],
  ['apertus', 'rope_freqs.weight'],
  ['apertus', 'blk.0.attn_k_norm.weight'],
  ['t5-relu', 'enc.blk.1.attn_rel_b.weight'],
  ['t5-relu', 'dec.blk.1.attn_rel_b.weight'],
];

describe('the golden models notice every rule', () => {
  const load = (name: string) => readGguf(goldenModel(name in MADE ? name : `${name}.gguf`));
  function change(name: string, alter: (g: { meta: Map<string, MetaValue>; tensors: Map<string, never> }) => void): number {
    const gguf = load(name);
    const { ids } = golden.cases.find(({ model }) => model.replace('.gguf', '') === name)!;
    const before = reference(gguf)
      .logits(ids, 256)
      .flatMap((l) => [...l]);
    alter(gguf as never);
    const after = reference(gguf)
      .logits(ids, 256)
      .flatMap((l) => [...l]);
    const largest = before.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
    return before.reduce((a, v, i) => Math.max(a, Math.abs(v - after[i])), 0) / largest;
  }
  /** Five times the tolerance of F16 models. */
  const visible = 1e-2;
  it.each(rules)('%s: %s', (name, key, value) => {
    const prefix = (meta: Map<string, MetaValue>): string =>
      key.startsWith('xielu.') ? '' : `${meta.get('general.architecture') as string}.`;
    expect(change(name, ({ meta }) => meta.set(prefix(meta) + key, value))).toBeGreaterThan(visible);
  });
  it.each(optional)('%s: %s', (name, tensor) => {
    expect(change(name, ({ tensors }) => expect(tensors.delete(tensor)).toBe(true))).toBeGreaterThan(visible);
  });
});

it('the generator writes the committed models', async () => {
  const { write } = (await import(new URL('gguf.mjs', folder).href)) as { write: (model: unknown) => Uint8Array };
  const { models, contexts, adapters } = (await import(new URL('models.mjs', folder).href)) as {
    models: Record<string, () => unknown>;
    contexts: Record<string, () => unknown>;
    adapters: Record<string, { make: () => unknown }>;
  };
  for (const [name, make] of [
    ...Object.entries({ ...models, ...contexts }),
    ...Object.entries(adapters).map(([name, { make }]) => [name, make] as const),
  ]) {
    const file = readFileSync(new URL(`${name}.gguf`, folder));
    expect(Buffer.compare(write(make()), file), `${name}.gguf: node test/golden/arch/make.mjs`).toBe(0);
  }
});
