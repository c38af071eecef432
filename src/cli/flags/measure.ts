/** Flags for measuring models: speed, perplexity, importance of weights, use of experts, memory. */
import { flag, toggle, type Flag } from './flag.ts';

export const MEASURE_ROWS = {
  benchPrompt: flag('n-prompt', '-p', 'integers', 'N,...', 'prompt lengths to time; 0: none (512)'),
  benchGen: flag('n-gen', '-n', 'integers', 'N,...', 'numbers of generated tokens to time; 0: none (128)'),
  benchBoth: flag('prompt-gen', '-pg', 'strings', 'P,N', 'time a prompt of P and N generated tokens together; may be given several times'),
  benchDepth: flag('n-depth', '-d', 'integers', 'N,...', 'tokens already in the cache (0)'),
  benchThreads: flag('threads', '-t', 'integers', 'N,...', 'numbers of threads; default: all cores this process may use'),
  delay: flag('delay', '', 'integer', 'SECONDS', 'wait before each test (0)'),
  repetitions: flag('repetitions', '-r', 'integer', 'N', 'times each test runs (5)'),
  output: flag('output', '-o', 'string', 'FORMAT', 'md, json, jsonl or csv (md)', ['md', 'json', 'jsonl', 'csv']),
  chunks: flag('chunks', '', 'integer', 'N', 'measure at most this many windows; default: all'),
  klBase: flag(
    'kl-divergence-base',
    '--save-all-logits',
    'string',
    'FILE',
    'write logits to this file; with --kl-divergence: compare with its logits',
  ),
  kl: flag('kl-divergence', '', 'boolean', '', 'compare with the logits of --kl-divergence-base'),
  imatrixFile: flag('output', '-o --output-file', 'string', 'FILE', 'file to write (imatrix.gguf)'),
  outputFormat: flag('output-format', '', 'string', 'FORMAT', 'gguf, or dat for old programs (gguf)', ['gguf', 'dat']),
  processOutput: flag('process-output', '', 'boolean', '', 'measure output.weight too'),
  experts: flag('experts', '', 'boolean', '', 'count how often each expert of a mixture is used over a text'),
  memory: flag('memory', '', 'boolean', '', 'print the memory of the model by its parts, with the given context and types of the cache'),
  ppl: toggle('ppl', '', '--no-ppl', 'compute the perplexity too (on)'),
  fromChunk: flag('chunk', '--from-chunk', 'integer', 'N', 'skip the first N windows (0)'),
  parseText: flag('parse-special', '', 'boolean', '', 'read control tokens in the text, like <|im_end|>'),
  inFile: flag(
    'in-file',
    '',
    'strings',
    'FILE,...',
    'add earlier measurements; may be given several times; without a text, they are joined',
  ),
  outputFrequency: flag('output-frequency', '-ofreq', 'integer', 'N', 'write the file after every N windows, and at the end (10)'),
  saveFrequency: flag('save-frequency', '', 'integer', 'N', 'keep a copy FILE.at_WINDOWS after every N windows; 0: none (0)'),
} as const satisfies { readonly [key: string]: Flag };
