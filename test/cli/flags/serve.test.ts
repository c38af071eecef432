/** The flags of quantlet serve. */
import { vi } from 'vitest';
import { serve } from '../../../src/cli/serve.ts';
import { loadOptions } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { samplerFlags } from './sampler-flags.ts';
import { serveAnswers } from './serve-answers.ts';
import { serveConnections } from './serve-connections.ts';
import { serveModels } from './serve-models.ts';
import { describeFlags } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(serve, (effect) => {
  loadOptions(serve, effect);
  modelFiles(serve, effect);
  samplerFlags(serve, effect);

  serveConnections(effect);
  serveAnswers(effect);
  serveModels(effect);
});
