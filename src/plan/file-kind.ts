/**
 * Refuses GGUF files that are not language models, naming what they are, before they fail for some
 * missing tensor.
 */
import { findArchitecture } from '../arch/registry.ts';
import { QuantletError } from '../errors.ts';
import { getArchitecture } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { readVocab } from '../tokenize/vocab.ts';

/** Architectures of models that make images or films, by the names that their converters write. */
const DIFFUSION: ReadonlySet<unknown> = new Set(
  'aura chroma cosmos flux hidream hunyuan_video hyvid ltxv lumina2 pig qwen_image sd1 sd2 sd3 sdxl wan z_image'.split(' '),
);
/** Tensors of such models, whose files often name no architecture. */
const DIFFUSION_TENSOR = /^(?:model\.)?(?:diffusion_model|double_blocks|joint_blocks|single_blocks|first_stage_model)\./;

interface Kind {
  readonly is: (gguf: GGUF, type: unknown, architecture: unknown) => boolean;
  readonly what: string;
  readonly instead: string;
}

const some = (gguf: GGUF, test: RegExp): boolean => [...gguf.tensors.keys()].some((name) => test.test(name));

const KINDS: readonly Kind[] = [
  {
    is: (gguf, type, architecture) => type === 'mmproj' || architecture === 'clip' || gguf.metadata.has('clip.projector_type'),
    what: 'a projector (mmproj), which turns images or sound into what a language model reads',
    instead: 'load the model it was made for, and give this file as `mmproj` (--mmproj)',
  },
  {
    is: (gguf, type) => type === 'imatrix' || (gguf.tensors.size > 0 && some(gguf, /\.in_sum2$/)),
    what: 'an importance matrix',
    instead: 'give it to quantlet quantize with --imatrix',
  },
  {
    is: (gguf, _, architecture) => DIFFUSION.has(architecture) || (architecture === undefined && some(gguf, DIFFUSION_TENSOR)),
    what: 'a diffusion model, which makes images',
    instead: 'quantlet runs language models; stable-diffusion.cpp and ComfyUI run this',
  },
];

/**
 * @throws ERR_ADAPTER, ERR_UNSUPPORTED_ARCH for a file that is not a language model, naming what it
 * is
 */
export function refuseOtherKinds(gguf: GGUF): void {
  const type = gguf.metadata.get('general.type');
  if (type === 'adapter')
    throw new QuantletError(
      'ERR_ADAPTER',
      'this file is an adapter, not a model; load the model that it was made for, and give this file as `lora` (--lora)',
    );
  const kind = KINDS.find(({ is }) => is(gguf, type, gguf.metadata.get('general.architecture')));
  if (kind) throw new QuantletError('ERR_UNSUPPORTED_ARCH', `this file is ${kind.what}, not a language model; ${kind.instead}`);
}

/**
 * @throws ERR_ADAPTER, ERR_UNSUPPORTED_ARCH, ERR_MISSING_TENSOR, ERR_MISSING_METADATA for a file
 * that cannot run, before its tokenizer is read
 */
export function refuseWithoutModel(gguf: GGUF): void {
  refuseOtherKinds(gguf);
  const { name } = findArchitecture(getArchitecture(gguf));
  if (gguf.tensors.size === 0)
    throw new QuantletError(
      'ERR_MISSING_TENSOR',
      `this file has the metadata of a ${name} model and no tensors: it is a vocabulary; expected a file with weights`,
    );
  const hasVocab = gguf.metadata.has('tokenizer.ggml.model') && gguf.metadata.has('tokenizer.ggml.tokens');
  if (!hasVocab) readVocab(gguf.metadata); // throws, and names what is missing
}

/** Maximum number of names of tensors that a note lists. */
const SHOWN_NAMES = 8;

/**
 * Note about tensors that nothing reads: the file may be a variant of the architecture that
 * quantlet does not know.
 */
export function unusedNotes(names: readonly string[]): readonly string[] {
  if (names.length === 0) return [];
  const more = names.length > SHOWN_NAMES ? ` and ${names.length - SHOWN_NAMES} more (quantlet inspect lists them)` : '';
  return [
    `the model does not use ${names.length === 1 ? 'a tensor' : `${names.length} tensors`} of its file, so it may be of a variant that quantlet does not know: ${names.slice(0, SHOWN_NAMES).join(', ')}${more}`,
  ];
}
