/** Opening of a model: its files and those of its adapters, their headers, and what these say. */
import { withThreshold } from '../arch/sparse.ts';
import { withMetadata } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { openModelFiles, type ModelSource } from '../io/model-files.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import type { FileSampling } from '../sample/file-defaults.ts';
import { createTokenizer, type Tokenizer } from '../tokenize/tokenizer.ts';
import type { OpenedLoras } from './open-loras.ts';
import type { OpenedFile, Platform } from '../platform.ts';

/** Files of a model and of its adapters, open, their headers read and checked. */
export interface OpenedModel extends OpenedLoras {
  /** The model's header, with the metadata that the caller replaced. */
  readonly gguf: GGUF;
  readonly sampling: FileSampling;
  /** @see OpenedFile.projector */
  readonly projector: string | URL | undefined;
  /**
   * Makes the tokenizer when first called: that takes as long as planning, so it waits until
   * threads read.
   */
  tokenizer(): Tokenizer;
}

/**
 * @param onOpen called when the first file is open and its header is not yet read
 * @throws what openModelFiles() throws; ERR_ADAPTER; ERR_UNSUPPORTED_ARCH for a file that is not a
 * model
 */
export async function openModel(
  platform: Platform,
  source: ModelSource | readonly ModelSource[],
  { overrideKv, sparseThreshold, lora, signal }: ResolvedLoadOptions,
  onOpen: ((file: OpenedFile) => void) | undefined,
): Promise<OpenedModel> {
  const files = await openModelFiles(platform, source, signal, onOpen);
  try {
    const gguf = withThreshold(withMetadata(files.gguf, overrideKv), sparseThreshold);
    const sampling = await checkKind(gguf);
    // Load the code for adapters only if there are any, so that pages rarely download it.
    const adapted: OpenedLoras =
      lora.length > 0
        ? await (await import('./open-loras.ts')).openLoras(platform, lora, gguf, files.parts, signal)
        : { adapters: [], loras: new Map(), parts: files.parts, close: async () => {} };
    let tokenizer: Tokenizer | undefined;
    return {
      ...adapted,
      gguf,
      sampling,
      projector: files.projector,
      tokenizer: () => (tokenizer ??= createTokenizer(gguf.metadata)),
      close: async () => void (await Promise.all([files.close(), adapted.close()])),
    };
  } catch (error) {
    await files.close();
    throw error;
  }
}

/**
 * Checks and defaults that few files need; their code is loaded only then, so that pages rarely
 * download it.
 */
async function checkKind(gguf: GGUF): Promise<FileSampling> {
  const { metadata, tensors } = gguf;
  const type = metadata.get('general.type') ?? 'model';
  const hasVocab = metadata.has('tokenizer.ggml.model') && metadata.has('tokenizer.ggml.tokens');
  if (type !== 'model' || !hasVocab || tensors.size === 0) (await import('../plan/file-kind.ts')).refuseWithoutModel(gguf);
  const isSet = [...metadata.keys()].some((key) => key.startsWith('general.sampling.'));
  return isSet ? (await import('../sample/file-defaults.ts')).fileSampling(gguf) : { defaults: {}, warnings: [] };
}
