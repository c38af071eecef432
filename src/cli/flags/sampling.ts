/** Flags for choosing tokens: samplers, grammars, the end of a text. */
import { flag, named, sampling, type Flag } from './flag.ts';

export const SAMPLING_ROWS = {
  temp: sampling('temperature', flag('temp', '--temperature', 'number', 'T', 'temperature; 0: always the most probable token (0.8)')),
  topK: sampling('topK', flag('top-k', '', 'integer', 'K', 'keep the K most probable tokens; 0: all (40)')),
  topP: sampling('topP', flag('top-p', '', 'number', 'P', 'keep the most probable tokens that add up to P; 1: all (0.95)')),
  minP: sampling('minP', flag('min-p', '', 'number', 'P', 'keep tokens at least P times as probable as the best; 0: all (0.05)')),
  typical: sampling('typicalP', flag('typical', '--typical-p', 'number', 'P', 'locally typical sampling; 1: off (1)')),
  topNSigma: sampling(
    'topNSigma',
    flag('top-n-sigma', '--top-nsigma', 'number', 'N', 'keep logits within N standard deviations of the best; -1: off (-1)'),
  ),
  xtcProbability: sampling(
    'xtcProbability',
    flag('xtc-probability', '', 'number', 'P', 'XTC: probability with which likely tokens are removed (0)'),
  ),
  xtcThreshold: sampling(
    'xtcThreshold',
    flag('xtc-threshold', '', 'number', 'P', 'XTC: a token of at least this probability is likely (0.1)'),
  ),
  repeatPenalty: sampling('repeatPenalty', flag('repeat-penalty', '', 'number', 'X', 'make the last tokens less likely; 1: off (1)')),
  repeatLastN: sampling(
    'repeatLastN',
    flag('repeat-last-n', '', 'integer', 'N', 'number of last tokens that the penalties apply to; -1: all (64)'),
  ),
  presencePenalty: sampling(
    'presencePenalty',
    flag('presence-penalty', '', 'number', 'X', 'subtracted from the logit of every token that occurred (0)'),
  ),
  frequencyPenalty: sampling(
    'frequencyPenalty',
    flag('frequency-penalty', '', 'number', 'X', 'subtracted from the logit once for each occurrence of the token (0)'),
  ),
  dryMultiplier: sampling('dryMultiplier', flag('dry-multiplier', '', 'number', 'X', 'DRY repetition penalty; 0: off (0)')),
  dryBase: sampling('dryBase', flag('dry-base', '', 'number', 'X', 'DRY base (1.75)')),
  dryAllowedLength: sampling(
    'dryAllowedLength',
    flag('dry-allowed-length', '', 'integer', 'N', 'DRY: repetitions up to N tokens are free (2)'),
  ),
  dryPenaltyLastN: sampling(
    'dryPenaltyLastN',
    flag('dry-penalty-last-n', '', 'integer', 'N', 'DRY: number of last tokens to search; 0: none, -1: all (64)'),
  ),
  drySequenceBreaker: sampling(
    'drySequenceBreakers',
    flag(
      'dry-sequence-breaker',
      '',
      'strings',
      'TEXT',
      'DRY: TEXT ends a repetition, in place of \\n : " *; none: no text does; may be given several times',
    ),
  ),
  logitBias: sampling(
    'logitBias',
    flag(
      'logit-bias',
      '-l',
      'strings',
      'ID(+|-)BIAS',
      'added to the logit of a token: 15043+1, 15043-0.5, 15043-inf bans it; may be given several times',
    ),
  ),
  mirostat: sampling('mirostat', flag('mirostat', '', 'integer', 'N', 'Mirostat 1 or 2; 0: off (0)')),
  mirostatLr: sampling('mirostatEta', flag('mirostat-lr', '', 'number', 'X', 'Mirostat learning rate eta (0.1)')),
  mirostatEnt: sampling('mirostatTau', flag('mirostat-ent', '', 'number', 'X', 'Mirostat target entropy tau (5)')),
  dynatempRange: sampling('dynatempRange', flag('dynatemp-range', '', 'number', 'X', 'dynamic temperature range; 0: off (0)')),
  dynatempExp: sampling('dynatempExponent', flag('dynatemp-exp', '', 'number', 'X', 'dynamic temperature exponent (1)')),
  seed: sampling('seed', flag('seed', '-s', 'integer', 'N', 'seed of the sampler; -1: random (-1)')),
  samplers: flag(
    'samplers',
    '',
    'string',
    'NAME;...',
    'samplers to apply, in this order (penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature)',
  ),
  samplerSeq: flag('sampler-seq', '--sampling-seq', 'string', 'LETTERS', 'samplers as letters (edskypmxt)'),
  predict: named(
    'maxTokens',
    flag(
      'predict',
      '-n --n-predict',
      'integer',
      'N',
      'at most this many new tokens; -1 and -2: until the model ends or the context is full',
    ),
  ),
  stop: flag('reverse-prompt', '-r', 'strings', 'TEXT', 'stop at this text; may be given several times'),
  ignoreEos: flag('ignore-eos', '', 'boolean', '', 'continue after the end-of-text token'),
  grammar: flag('grammar', '', 'string', 'GBNF', 'grammar that the text follows'),
  grammarFile: flag('grammar-file', '', 'string', 'FILE', 'the same from a file'),
  jsonSchema: flag('json-schema', '-j', 'string', 'SCHEMA', 'the text is JSON that fits this JSON schema; {}: any object'),
  jsonSchemaFile: flag('json-schema-file', '-jf', 'string', 'FILE', 'the same from a file'),
  schemaSource: flag('json-schema', '-j -jf --json-schema-file', 'string', 'FILE', 'a JSON schema in a file, or as JSON'),
  checkText: flag('check', '', 'string', 'FILE', 'the text to check; -: standard input'),
  strictSchema: flag('strict', '', 'boolean', '', 'refuse keywords that can only be held in part'),
} as const satisfies { readonly [key: string]: Flag };
