/** Every way quantlet refuses to go on. The message says what was found, what was expected and what to do. */
import { printable } from './printable.ts';

export type QuantletErrorCode =
  | 'ERR_GGUF_MAGIC'
  | 'ERR_GGUF_VERSION'
  | 'ERR_GGUF_TRUNCATED'
  | 'ERR_GGUF_INVALID'
  | 'ERR_SOURCE'
  | 'ERR_UNSUPPORTED_ARCH'
  | 'ERR_UNSUPPORTED_TYPE'
  | 'ERR_UNSUPPORTED_TOKENIZER'
  | 'ERR_MISSING_METADATA'
  | 'ERR_MISSING_TENSOR'
  | 'ERR_TENSOR_SHAPE'
  | 'ERR_OUT_OF_MEMORY'
  | 'ERR_CONTEXT_FULL'
  | 'ERR_INVALID_ARGUMENT'
  | 'ERR_NO_SIMD'
  | 'ERR_BUILD_UNAVAILABLE'
  | 'ERR_WORKER_LOST'
  | 'ERR_BUNDLED'
  | 'ERR_DISPOSED'
  | 'ERR_BUSY'
  | 'ERR_LOGITS'
  | 'ERR_GRAMMAR'
  | 'ERR_CHAT_TEMPLATE'
  | 'ERR_STATE'
  | 'ERR_ADAPTER'
  | 'ERR_DOWNLOAD'
  | 'ERR_USAGE'
  | 'ERR_IO';

/** What a value of the wrong kind is, in a message. */
export const typeName = (value: unknown): string => (value === null ? 'null' : typeof value);

/** A value in a message: numbers as they are, what is large by its name. */
export function tell(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}...` : value);
  if (typeof value === 'function') return 'a function';
  if (value === null || typeof value !== 'object') return typeof value === 'bigint' ? `${value}n` : String(value);
  if (Array.isArray(value)) return 'a list';
  const name = Object.prototype.toString.call(value).slice(8, -1);
  return name === 'Object' ? ('ne' in value ? 'a tensor' : 'an object') : `an object of type ${name}`;
}

/** The one error class of the package: `code` is stable, `message` is for people: one line, and what it quotes of files and servers cannot steer a terminal. */
export class QuantletError extends Error {
  readonly code: QuantletErrorCode;

  constructor(code: QuantletErrorCode, message: string, options?: ErrorOptions) {
    super(printable(message), options);
    this.name = 'QuantletError';
    this.code = code;
  }
}
