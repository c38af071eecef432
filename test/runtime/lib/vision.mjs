// Golden data of pictures for portable.mjs, and the library's decoder, which the package does not
// export, as a module of its own.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { root } from './consumer.mjs';

export const visionFolder = join(root, 'test/golden/vision');
const read = (name) => JSON.parse(readFileSync(join(visionFolder, name), 'utf8'));

export const visionGolden = {
  pictures: read('pictures.json'),
  cases: read('idefics3.json').map(({ name, prompt, pictures, prompt_ids, greedy }) => ({ name, prompt, pictures, prompt_ids, greedy })),
};
export const visionModel = 'idefics3.gguf';
export const visionProjector = 'mmproj-idefics3.gguf';

/** Writes the decoder to `folder` as decode.mjs. */
export const bundleDecoder = (folder) =>
  build({
    entryPoints: [join(root, 'src/vision/decode.ts')],
    bundle: true,
    format: 'esm',
    outfile: join(folder, 'decode.mjs'),
    logLevel: 'error',
  });
