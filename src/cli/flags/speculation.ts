/** Flags for speculative decoding. */
import { SPECULATION_TYPES } from '../../generate/draft/options.ts';
import { KV_TYPES } from '../../graph/attention-ops.ts';
import { cores, flag, type Flag } from './flag.ts';

export const SPECULATION_ROWS = {
  specType: flag(
    'spec-type',
    '',
    'string',
    'TYPE,...',
    'draft tokens and verify several in one step, without changing the text: ngram-simple, ngram-mod, draft-simple (none)',
    ['none', ...SPECULATION_TYPES],
  ),
  draftModel: flag('spec-draft-model', '-md --model-draft', 'string', 'FILE|URL', 'small model with the same vocabulary, for draft-simple'),
  draftHf: flag(
    'spec-draft-hf',
    '-hfd -hfrd --hf-repo-draft',
    'string',
    'USER/REPO[:QUANT]',
    'draft model from the Hugging Face hub; -md then names a file of the repository',
  ),
  draftMax: flag('spec-draft-n-max', '', 'integer', 'N', 'at most this many tokens from the draft model (3)'),
  draftMin: flag('spec-draft-n-min', '', 'integer', 'N', 'ignore shorter drafts of the draft model (0)'),
  draftPMin: flag('spec-draft-p-min', '--draft-p-min', 'number', 'P', 'the draft model stops at a token less probable than P (0)'),
  draftThreads: cores(
    flag('spec-draft-threads', '-td --threads-draft', 'integer', 'N', 'threads of the draft model; default: as many as -t'),
  ),
  draftCacheTypeK: flag(
    'spec-draft-type-k',
    '-ctkd --cache-type-k-draft',
    'string',
    'TYPE',
    "keys of the draft model's cache (f16)",
    KV_TYPES,
  ),
  draftCacheTypeV: flag(
    'spec-draft-type-v',
    '-ctvd --cache-type-v-draft',
    'string',
    'TYPE',
    "values of the draft model's cache (f16)",
    KV_TYPES,
  ),
  ngramSimpleN: flag(
    'spec-ngram-simple-size-n',
    '',
    'integer',
    'N',
    'ngram-simple: number of last tokens that must have occurred before (12)',
  ),
  ngramSimpleM: flag('spec-ngram-simple-size-m', '', 'integer', 'N', 'ngram-simple: draft at most this many tokens (48)'),
  ngramSimpleMinHits: flag(
    'spec-ngram-simple-min-hits',
    '',
    'integer',
    'N',
    'ngram-simple: number of times that they must have occurred (1)',
  ),
  ngramModMatch: flag('spec-ngram-mod-n-match', '', 'integer', 'N', 'ngram-mod: number of last tokens to look up (24)'),
  ngramModMin: flag('spec-ngram-mod-n-min', '', 'integer', 'N', 'ngram-mod: ignore shorter drafts (48)'),
  ngramModMax: flag('spec-ngram-mod-n-max', '', 'integer', 'N', 'ngram-mod: draft at most this many tokens (64)'),
} as const satisfies { readonly [key: string]: Flag };
