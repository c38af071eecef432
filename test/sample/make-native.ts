/**
 * Writes native.json: the candidates that native llama.cpp's samplers leave for the rows of
 * native-cases.ts, in its own order of samplers. For developers; tests only read the file. Packages
 * to install: see test/quantize/make-mixes.ts.
 *
 *   npx tsx test/sample/make-native.ts FOLDER
 */
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { CASES, HISTORY, LOGITS, N_VOCAB, OFF } from './native-cases.ts';

const require = createRequire(join(resolve(process.argv[2]), 'package.json'));
const koffi = require('koffi');
const bins = join(resolve(process.argv[2]), 'node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
for (const name of ['libggml-base.so', 'libggml.v0.5.0.so']) koffi.load(join(bins, name), { global: true });
const llama = koffi.load(join(bins, 'libllama.v0.5.0.so'));
koffi.struct('token_data_array', { data: 'void *', size: 'size_t', selected: 'int64', sorted: 'bool' });
const init = (name: string, types: string): ((...args: number[]) => unknown) => llama.func(`void *llama_sampler_init_${name}(${types})`);
const [penalties, topNSigma, topK, typical, topP, minP, xtc, temp, mirostat] = [
  init('penalties', 'int, int, float, float, float'),
  init('top_n_sigma', 'float'),
  init('top_k', 'int'),
  init('typical', 'float, size_t'),
  init('top_p', 'float, size_t'),
  init('min_p', 'float, size_t'),
  init('xtc', 'float, float, size_t, uint32'),
  init('temp_ext', 'float, float, float'),
  init('mirostat_v2', 'uint32, float, float'),
];
const accept = llama.func('void llama_sampler_accept(void *, int)');
const apply = llama.func('void llama_sampler_apply(void *, _Inout_ token_data_array *)');

/** Bytes of a token: { int32 id; float logit; float p }. */
const TOKEN = 12;

const golden = CASES.map((c) => {
  const o = { ...OFF, ...c };
  return LOGITS.map((logits) => {
    // the order of common_sampler_init
    const chain = o.mirostat
      ? [temp(o.temperature, 0, 1), mirostat(1, o.mirostatTau, 0.1)]
      : [
          penalties(N_VOCAB, o.repeatLastN, o.repeatPenalty, o.frequencyPenalty, o.presencePenalty),
          topNSigma(o.topNSigma),
          topK(o.topK),
          typical(o.typicalP, o.minKeep),
          topP(o.topP, o.minKeep),
          minP(o.minP, o.minKeep),
          xtc(o.xtcProbability, o.xtcThreshold, o.minKeep, 1),
          temp(o.temperature, o.dynatempRange, o.dynatempExponent),
        ];
    for (const id of HISTORY) accept(chain[0], id);
    const memory = Buffer.alloc(TOKEN * N_VOCAB);
    const tokens = { data: memory as unknown, size: N_VOCAB as number | bigint, selected: -1, sorted: false };
    logits.forEach((logit, id) => memory.writeFloatLE(logit, memory.writeInt32LE(id, TOKEN * id)));
    for (const sampler of chain) apply(sampler, tokens);
    const left = Buffer.from(koffi.decode(tokens.data, koffi.array('uint8', TOKEN * Number(tokens.size))));
    const kept = Array.from({ length: Number(tokens.size) }, (_, i) => ({
      id: left.readInt32LE(TOKEN * i),
      logit: left.readFloatLE(TOKEN * i + 4),
    })).filter(({ logit }) => logit > -Infinity);
    const largest = Math.max(...kept.map(({ logit }) => logit));
    const sum = kept.reduce((s, { logit }) => s + Math.exp(logit - largest), 0);
    memory.fill(0); // keeps the memory alive until here
    return Object.fromEntries(
      kept.sort((a, b) => a.id - b.id).map(({ id, logit }) => [id, Number((Math.exp(logit - largest) / sum).toPrecision(4))]),
    );
  });
});
writeFileSync(new URL('native.json', import.meta.url), `${JSON.stringify(golden).replaceAll('],[', '],\n[')}\n`);
