/**
 * A few seconds of new seeds against files, downloads, grammars, schemas, images and templates
 * of strangers. `npm run fuzz` runs longer.
 */
import { expect, it } from 'vitest';
import { newSeed, told, type CampaignOptions } from './campaign.ts';
import * as downloads from './downloads.ts';
import * as gguf from './gguf.ts';
import * as grammars from './grammars.ts';
import * as images from './images.ts';
import * as state from './state.ts';
import * as templates from './templates.ts';

const SECONDS = 1.5;
const options: CampaignOptions = { build: 'simd', threads: 1, seed: newSeed(), seconds: SECONDS, cases: Infinity };

it.each([
  ['gguf', gguf],
  ['state', state],
  ['downloads', downloads],
  ['grammars', grammars],
  ['images', images],
  ['templates', templates],
] as const)(
  '%s',
  async (name, { campaign }) => {
    const result = await campaign(options);
    expect(told(name, result)).toBe('');
    expect(result.cases).toBeGreaterThan(0);
  },
  300_000,
);
