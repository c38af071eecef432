/** Pattern of all test files of a folder except these. */
const allBut = (folder: string, ...names: readonly string[]): string => `test/${folder}/!(${names.join('|')}).test.ts`;

/**
 * Files that `npm run test:quick` leaves out, by the reason. All others run, also new files of
 * folders that are not listed.
 */
export const SLOW: readonly { readonly why: string; readonly files: readonly string[] }[] = [
  {
    why: 'campaigns of random cases',
    files: [
      'test/fuzz/**',
      'test/kernel/fuzz.test.ts',
      'test/grammar/json-schema.test.ts',
      'test/server/hostile.test.ts',
      'test/server/misuse.test.ts',
      'test/tokenize/partition.test.ts',
    ],
  },
  {
    why: 'golden data and references, for all types, architectures, numbers of threads',
    files: [
      'test/arch/**',
      allBut('kernel', 'block-traits', 'block-vec-dot', 'log_softmax', 'loops', 'packed-f32'),
      allBut('ops', 'core-api', 'core-types', 'data', 'golden-reference'),
      'test/grammar/model-answers.test.ts',
      'test/grammar/tokenizer.test.ts',
      'test/quantize/files.test.ts',
      'test/quantize/quantize-file.test.ts',
      'test/sample/native.test.ts',
      'test/sample/steps.test.ts',
      'test/tokenize/bpe.test.ts',
      'test/tokenize/vectors.test.ts',
    ],
  },
  {
    why: 'models that are loaded and generate',
    files: [
      allBut('model', 'options', 'retry'),
      allBut('load', 'compile-ahead', 'load', 'sources', 'touch-pages'),
      allBut(
        'server',
        'anthropic',
        'client',
        'encoding',
        'field-names',
        'json',
        'models',
        'llama-server',
        'prefill',
        'reasoning',
        'responses',
        'streams',
      ),
      'test/ai-sdk/model.test.ts',
      'test/rotate/**',
      'test/sparsify/**',
    ],
  },
  { why: 'lost workers, large files, and waits of seconds', files: ['test/threads/**', 'test/gguf/memory.test.ts', allBut('web', 'rpc')] },
  { why: 'templates of every model', files: [allBut('chat', 'check', 'exact-json', 'jinja2', 'named-templates', 'parser')] },
  {
    why: 'commands with models or processes of their own',
    files: [allBut('cli', 'completion', 'show-answer', 'terminal'), 'test/cli/flags/**', 'test/cli/mcp/**'],
  },
  { why: 'downloads with stalls and retries', files: [allBut('hub', 'library', 'names')] },
  {
    why: 'the package, its types and its documents as they are published',
    files: ['bundled', 'build', 'document-programs', 'package', 'plain-summary', 'types'].map((name) => `test/${name}.test.ts`),
  },
];
