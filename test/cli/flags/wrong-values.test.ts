/** Wrong values of flags are refused, in every command that has the flag. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import { allCommands } from '../../../src/cli/commands.ts';
import { FLAGS, type FlagKey } from '../../../src/cli/flags.ts';
import { grammar } from '../../../src/cli/grammar.ts';
import { ggufHash } from '../../../src/cli/gguf-hash.ts';
import { ggufSplit } from '../../../src/cli/gguf-split.ts';
import { inspectCommand as inspect } from '../../../src/cli/inspect-command.ts';
import { quantize } from '../../../src/cli/quantize.ts';
import { rotate } from '../../../src/cli/rotate.ts';
import { failure, llamaModel, shippedModel } from '../../support.ts';
import { listening, type Args } from '../commands.ts';
import { BASE, folder, text, without } from './support.ts';

const COMMANDS = await allCommands();
const having = (key: FlagKey): readonly Command[] => COMMANDS.filter((c) => c.flags.includes(key));

describe('values that make no sense', () => {
  const missing = join(folder, 'none');
  const range = (name: string) => new RegExp(`${name}.* is .*expected`);
  /**
   * Wrong values per flag, tested in every command that has the flag, and the expected error. Flags
   * without a row take any text or are switches.
   */
  const WRONG: Partial<Record<FlagKey, readonly (readonly [value: string, message: RegExp])[]>> = {
    model: [[missing, /none/]],
    models: [[missing, /none/]],
    modelsDir: [[missing, /none/]],
    modelsMax: [['0', /maxLoaded is 0/]],
    modelsMemory: [['-1', range('maxBytes')]],
    path: [[missing, /none/]],
    mediaPath: [[missing, /--media-path .*none/]],
    mediaUrl: [['a.example/b', /--media-url is .*expected hosts/]],
    apiPrefix: [['api', /apiPrefix is "api"/]],
    sslKeyFile: [[missing, /both/]],
    sslCertFile: [[missing, /both/]],
    slotSavePath: [[join(text, 'x'), /--slot-save-path/]],
    batchDir: [[join(text, 'x'), /--batch-dir/]],
    maxFile: [['-1', range('maxFileBytes')]],
    maxFiles: [['-1', range('maxStoredBytes')]],
    batchInput: [[missing, /the lines .*none/]],
    batchOutput: [[join(text, 'x'), /text.txt/]],
    errorsFile: [[join(text, 'x'), /text.txt/]],
    shard: [['2/2', /--shard is "2\/2"/]],
    hf: [['repo', /repo/]],
    hfFile: [['../x.gguf', /-hf|takes one file/]],
    file: [[missing, /none/]],
    threads: [['0', range('threads')]],
    ctx: [['-1', /(contextLength|-c) is -1/]],
    batch: [
      ['0', /(batchSize|-b) is 0/],
      ['-3', /(batchSize|-b) is -3/],
    ],
    sparseFile: [[join(missing, 'out.gguf'), /opening .*none/]],
    predictor: [['0', /--predictor is 0/]],
    predictorSteps: [['0', /--predictor-steps is 0/]],
    hot: [['0', /--hot is 0/]],
    recall: [
      ['0', /--recall is 0/],
      ['1.5', /--recall is 1.5/],
    ],
    rotationSeed: [['-1', /--seed is -1/]],
    learn: [[missing, /none/]],
    learnSteps: [['0', /--learn-steps/]],
    learnRate: [['0', /--learn-rate/]],
    checkpoint: [[missing, /give the text with --learn/]],
    actBits: [['5', /actBits is 5; expected 4 or 8/]],
    sparseThreshold: [['0', /sparseThreshold is 0, but the model has no predictors/]],
    attnHeads: [
      ['0', /attn-?heads is 0; expected a share/i],
      ['0.5', /no layer of this llama model has rows of heads/],
    ],
    ctxCheckpoints: [['-1', /(ctxCheckpoints|-ctxcp) is -1/]],
    checkpointMinStep: [['0', /(checkpointMinStep|-cms) is 0/]],
    neuronWindow: [
      ['-1', /neuron-?window is -1/i],
      ['5', /model has none; leave it out/],
    ],
    cacheTypeK: [['q5_K', /cacheTypeK is "q5_K"/]],
    iqWeights: [['small', /iqWeights is "small"/]],
    cacheTypeV: [['x', /cacheTypeV is "x"/]],
    weightsMemory: [
      ['2Q', /--weights-memory is "2Q".*512M/],
      ['0', /--weights-memory is "0"/],
      ['9', /weightsMemory is 9 .*at least \d+/],
    ],
    build: [['avx2', /"avx2"/]],
    dimensions: [['0', /--dimensions is 0/]],
    precision: [['int4', /--precision is "int4"/]],
    promptName: [['query', /promptName is "query"/]],
    mmproj: [[missing, /none/]],
    mcpConfig: [[missing, /the MCP servers .*none/]],
    mcpJson: [['[]', /mcpServers of --mcp-servers-json is undefined/]],
    mcpAllow: [['a', /--mcp-servers-config FILE/]],
    imageMinTokens: [['0', range('imageMinTokens|--image-min-tokens')]],
    imageMaxTokens: [['0', range('imageMaxTokens|--image-max-tokens')]],
    image: [[missing, /--mmproj/]],
    lora: [[missing, /none/]],
    loraScaled: [
      ['x.gguf', /FILE:SCALE/],
      ['x.gguf:y', /FILE:SCALE/],
    ],
    predict: [['-3', range('maxTokens')]],
    topK: [['-2', range('topK')]],
    topP: [['1.1', range('topP')]],
    minP: [['-0.1', range('minP')]],
    typical: [['2', range('typicalP')]],
    temp: [['1e9', range('temperature')]],
    topNSigma: [['1e9', range('topNSigma')]],
    xtcProbability: [['2', range('xtcProbability')]],
    xtcThreshold: [['-1', range('xtcThreshold')]],
    repeatPenalty: [['0', range('repeatPenalty')]],
    repeatLastN: [['-2', range('repeatLastN')]],
    presencePenalty: [['1e9', range('presencePenalty')]],
    frequencyPenalty: [['1e9', range('frequencyPenalty')]],
    dryMultiplier: [['-1', range('dryMultiplier')]],
    dryBase: [['0.5', range('dryBase')]],
    dryAllowedLength: [['-1', range('dryAllowedLength')]],
    dryPenaltyLastN: [['-2', range('dryPenaltyLastN')]],
    drySequenceBreaker: [['', /drySequenceBreakers/]],
    logitBias: [
      ['5', /--logit-bias is "5"/],
      ['9999+1', /token 9999/],
    ],
    mirostat: [['3', range('mirostat')]],
    mirostatLr: [['-1', range('mirostatEta')]],
    mirostatEnt: [['-1', range('mirostatTau')]],
    dynatempRange: [['-1', range('dynatempRange')]],
    dynatempExp: [['-1', range('dynatempExponent')]],
    seed: [['-2', /seed is -2/]],
    threadsBatch: [['0', range('threads')]],
    samplers: [['top_k;nothing', /--samplers has "nothing"/]],
    samplerSeq: [['kq', /--sampler-seq has "q"/]],
    keep: [['-2', /--keep is -2/]],
    ropeScaling: [['4', /--rope-scaling is "4"/]],
    ropeScale: [['0', /above 0/]],
    ropeFreqBase: [['x', /rope-freq-base is "x"/]],
    ropeFreqScale: [['-1', /above 0/]],
    yarnOrigCtx: [['-1', /original_context_length/]],
    yarnExtFactor: [['x', /yarn-ext-factor is "x"/]],
    yarnAttnFactor: [['x', /yarn-attn-factor is "x"/]],
    yarnBetaFast: [['x', /yarn-beta-fast is "x"/]],
    yarnBetaSlow: [['x', /yarn-beta-slow is "x"/]],
    overrideKv: [
      ['a=b', /--override-kv is "a=b"/],
      ['a=int:x', /--override-kv/],
    ],
    systemFile: [[missing, /the system message .*none/]],
    chatTemplateKwargs: [['{', /not JSON/]],
    reasoning: [['x', /"x"/]],
    reasoningFormat: [['x', /"x"/]],
    reasoningBudget: [['-2', /--reasoning-budget is -2/]],
    color: [['x', /"x" is not a flag/]],
    jsonSchemaFile: [[missing, /the JSON schema .*none/]],
    delay: [['-1', /--delay is -1/]],
    tensorTypeFile: [[missing, /the tensor types .*none/]],
    splitMaxTensors: [['0', /--split-max-tensors is 0/]],
    splitMaxSize: [['5', /--split-max-size is "5"/]],
    check: [[missing, /the manifest .*none/]],
    stop: [['', /stop string is empty/]],
    grammar: [['root ::= (', /grammar/]],
    grammarFile: [[missing, /the grammar .*none/]],
    schemaSource: [
      [missing, /the JSON schema .*none/],
      ['{', /--json-schema is not JSON/],
      ['{"pattern":"("}', /#\/pattern/],
    ],
    checkText: [[missing, /the text .*none/]],
    jsonSchema: [
      ['{', /not JSON/],
      ['{"type": 5}', /type/],
    ],
    promptCache: [[text, /not a saved state/]],
    chatTemplate: [['{% for %}', /template/]],
    chatTemplateFile: [[missing, /the chat template .*none/]],
    benchPrompt: [['-1', /must be 0 or more/]],
    benchGen: [['-1', /must be 0 or more/]],
    benchDepth: [['-1', /must be 0 or more/]],
    benchBoth: [
      ['5', /-pg is "5"/],
      ['1,x', /-pg is/],
    ],
    benchThreads: [['0', range('threads')]],
    repetitions: [['0', /-r is 0/]],
    output: [['xml', /-o is "xml"/]],
    chunks: [['0', /chunks|window/]],
    imatrixFile: [[join(missing, 'x'), /none/]],
    outputFormat: [['xml', /--output-format is "xml"/]],
    fromChunk: [['-1', /--chunk is -1/]],
    inFile: [[missing, /none/]],
    outputFrequency: [['0', /--output-frequency is 0/]],
    saveFrequency: [['-1', /--save-frequency is -1/]],
    klBase: [[join(missing, 'x'), /none/]],
    specType: [
      ['ngram-simpel', /"ngram-simpel"/],
      ['draft-simple', /draft/],
    ],
    draftModel: [[missing, /none/]],
    draftHf: [['repo', /repo/]],
    draftMax: [['-1', range('nMax')]],
    draftMin: [['-1', range('nMin')]],
    draftPMin: [['2', range('pMin')]],
    draftThreads: [['0', range('threads')]],
    draftCacheTypeK: [['x', /cacheTypeK is "x"/]],
    draftCacheTypeV: [['x', /cacheTypeV is "x"/]],
    ngramSimpleN: [['0', range('sizeN')]],
    ngramSimpleM: [['0', range('sizeM')]],
    ngramSimpleMinHits: [['0', range('minHits')]],
    ngramModMatch: [['0', range('nMatch')]],
    ngramModMin: [['-1', range('nMin')]],
    ngramModMax: [['-1', range('nMax')]],
    pooling: [['sum', /--pooling is "sum"/]],
    embdNormalize: [['-2', /--embd-normalize is -2/]],
    embdOutputFormat: [['xml', /--embd-output-format is "xml"/]],
    embdSeparator: [['', /--embd-separator is empty/]],
    host: [['203.0.113.7', /203\.0\.113\.7/]],
    port: [['70000', /--port is 70000/]],
    parallel: [['0', range('parallel')]],
    apiKey: [['', /apiKey is empty/]],
    apiKeyFile: [[missing, /the keys .*none/]],
    timeout: [['-1', /--timeout is -1/]],
    answerTimeout: [['-1', range('timeoutMs')]],
    ssePingInterval: [['-2', /--sse-ping-interval is -2/]],
    maxQueue: [['-1', range('maxQueue')]],
    maxBody: [['-1', range('maxBodyBytes')]],
    maxBuffered: [['-1', range('maxBufferedBytes')]],
    maxText: [['-1', range('maxTextChars')]],
    maxMessages: [['-1', range('maxMessages')]],
    bodyTimeout: [['-1', range('bodyTimeoutMs')]],
    imatrix: [[missing, /none/]],
    outputTensorType: [['q7', /"q7"/]],
    tokenEmbeddingType: [['q7', /"q7"/]],
    tensorType: [
      ['attn_v', /NAME=TYPE/],
      ['(=q4_0', /regular expression/],
    ],
  };
  /** Flags that accept any text, or a name that only the receiver can check. */
  const ANY: readonly FlagKey[] = [
    'includeWeights',
    'excludeWeights',
    'reasoningEffort',
    'reasoningBudgetMessage',
    'prompt',
    'message',
    'text',
    'system',
    'hfToken',
    'alias',
    'cors',
    'allowedHosts',
    'clsSeparator',
  ];

  it('every flag with a value has a row', () => {
    const lacking = (Object.keys(FLAGS) as FlagKey[]).filter(
      (key) => FLAGS[key].type !== 'boolean' && !(key in WRONG) && !ANY.includes(key),
    );
    expect(lacking).toEqual([]);
  });

  const out = join(folder, 'wrong.gguf');
  /** Arguments after the flags. */
  const MORE = new Map<Command, Args>([
    [quantize, [llamaModel, out, 'Q4_0']],
    [ggufSplit, [llamaModel, out]],
    [ggufHash, [llamaModel]],
    [rotate, [llamaModel, out]],
  ]);
  /** The usual arguments, except for those that exclude the flag. */
  const base = (c: Command, key: FlagKey): Args => {
    if (MORE.has(c) || (c === grammar && key !== 'checkText')) return [];
    // Flags of the draft model need a draft model.
    if (/^draft(?!Model|Hf)/.test(key)) return [...BASE[c.name], '-md', llamaModel];
    if (/^maxFiles?$/.test(key)) return [...BASE[c.name], '--batch-dir', join(folder, 'batches')];
    if (c === inspect && key === 'parallel') return ['-m', llamaModel, '--memory'];
    // Limits for several models need more than one.
    if (/^models(Max|Memory)$/.test(key)) return [...BASE[c.name], '-m', shippedModel];
    return without(
      BASE[c.name],
      { file: '-p', keep: '--json', hf: '-m', hfFile: '-m', chatTemplateFile: '--chat-template' }[key as string] ?? '',
    );
  };
  const rows = (Object.entries(WRONG) as [FlagKey, readonly (readonly [string, RegExp])[]][]).flatMap(([key, values]) =>
    having(key).map((c) => [c.name, `--${FLAGS[key].name}`, c, key, values] as const),
  );
  it.each(rows)('%s %s', async (_, flag, c, key, values) => {
    for (const [value, message] of values) {
      const args = [...base(c, key), flag, value, ...(MORE.get(c) ?? [])].map(String);
      const got = await listening(() => failure(() => c.run(args, AbortSignal.timeout(20_000))));
      expect([value, got.code, got.message]).toEqual([value, expect.stringMatching(/^ERR_/), expect.stringMatching(message)]);
    }
  });
});
