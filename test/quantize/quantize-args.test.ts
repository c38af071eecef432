import { describe, expect, test } from 'vitest';
import { parseQuantizeArgs } from '../../src/cli/quantize-args.ts';

test.each<[string[], string, string, number | undefined]>([
  [['dir/in.gguf', 'out.gguf', 'Q4_K_M'], 'out.gguf', 'Q4_K_M', undefined],
  [['dir/in.gguf', 'out.gguf', 'q4_k', '8'], 'out.gguf', 'Q4_K_M', 8],
  [['dir/in.gguf', 'Q8_0'], 'dir/ggml-model-Q8_0.gguf', 'Q8_0', undefined],
  [['dir/in.gguf', '2', '3'], 'dir/ggml-model-Q4_0.gguf', 'Q4_0', 3],
  [['in.gguf', 'iq4_nl'], 'ggml-model-IQ4_NL.gguf', 'IQ4_NL', undefined],
])('%j', (positionals, output, name, nthreads) => {
  expect(parseQuantizeArgs(positionals)).toMatchObject({ input: positionals[0], output, ftype: { name }, nthreads });
});

describe('bad usage', () => {
  test.each<[string[], RegExp]>([
    [[], /0 arguments were given; expected at least a file and a type, one of .*, Q4_0, /],
    [['in.gguf'], /1 arguments were given/],
    [['in.gguf', 'out.gguf'], /"out.gguf" is not a type that quantlet can make, and no type follows/],
    [['in.gguf', 'out.gguf', 'Q7'], /"Q7" is not a type that quantlet can make; expected one of/],
    [['in.gguf', 'Q4_0', 'many'], /nthreads is "many"; expected a whole number/],
    [['in.gguf', 'Q4_0', '0'], /nthreads is "0"/],
    [['in.gguf', 'out.gguf', 'Q4_0', '1', '2'], /5 arguments were given; expected at most 4/],
  ])('%j', (positionals, message) => {
    expect(() => parseQuantizeArgs(positionals)).toThrow(
      expect.objectContaining({ code: 'ERR_USAGE', message: expect.stringMatching(message) }),
    );
  });
});
