/** Projector files of tests: their headers, and encoders. */
import { platform } from '../../src/entry/node-platform.ts';
import type { EncoderOptions } from '../../src/encoder/encoder.ts';
import { openModelFiles, type ModelSource } from '../../src/io/model-files.ts';
import { ImageEncoder } from '../../src/vision/encoder.ts';
import { visionProjector } from '../../src/vision/vision.ts';
import type { TokenLimits } from '../../src/vision/layout.ts';

/** The projector for images in a file. */
export async function projectorIn(source: ModelSource, limits: TokenLimits = {}): Promise<ReturnType<typeof visionProjector>> {
  const files = await openModelFiles(platform, source);
  try {
    return visionProjector(files.gguf, limits);
  } finally {
    await files.close();
  }
}

/** The projector for images in a file, and its encoder. */
export async function encoderIn(
  source: ModelSource,
  { threads, build }: Pick<EncoderOptions, 'threads' | 'build'>,
): Promise<ReturnType<typeof visionProjector> & { readonly encoder: ImageEncoder }> {
  const files = await openModelFiles(platform, source);
  try {
    const projector = visionProjector(files.gguf, {});
    return {
      ...projector,
      encoder: await ImageEncoder.load(platform, files, projector, { threads, build, turbo: undefined, signal: undefined }),
    };
  } finally {
    await files.close();
  }
}
