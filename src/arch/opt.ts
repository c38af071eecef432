/**
 * OPT, as in PowerInfer's files: learnt positions, layer norms and biases everywhere, ReLU without
 * a gate. OPT 350M, whose norms follow the branches, is not supported.
 */
import { QuantletError } from '../errors.ts';
import { add } from '../graph/elementwise-ops.ts';
import { get_rows } from '../graph/ops.ts';
import { view } from '../graph/views.ts';
import { OPT_POSITIONS } from './hparams.ts';
import { decoder } from './llama.ts';
import { reluFeedForward } from './sparse.ts';

export const opt = decoder('opt', (hp, g) => {
  const name = 'position_embd.weight';
  const n = (g.shapeOf(name)?.[1] ?? 0) - OPT_POSITIONS;
  const table = g.weight(name, [hp.nEmbd, n + OPT_POSITIONS]);
  if (g.contextLength > n)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the context is ${g.contextLength} tokens, but this opt model has ${n} positions; give a context of at most ${n}`,
    );
  const positions = view(table, [hp.nEmbd, n, 1, 1], { offset: OPT_POSITIONS * table.nb[1] });
  return {
    embeddings: (t) => add(t, get_rows(positions, g.inputs.pos)),
    layer: (il) => ({ feedForward: (h, _, states) => reluFeedForward(g, hp, il, 'plain', h, states) }),
  };
});
