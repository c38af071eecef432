/**
 * Error class of quantlet and its codes. A message says what was found, what was expected and what
 * to do.
 */
import { printable } from './printable.ts';

/**
 * Kind of error, for programs. `npm run generate` copies the comments on the codes to
 * docs/troubleshooting.md.
 */
export type QuantletErrorCode =
  /**
   * The file is not a GGUF file. Often it is a web page saved by a failed download, a Git LFS
   * pointer, or a model in another format: get the `.gguf` file, or convert the model.
   */
  | 'ERR_GGUF_MAGIC'
  /**
   * The file is GGUF, but of a version or byte order that cannot be read; versions 2 and 3,
   * little-endian, can. Convert the model again.
   */
  | 'ERR_GGUF_VERSION'
  /**
   * The file ends before its last tensor does, usually because a download or a copy was cut off.
   * Get it again.
   */
  | 'ERR_GGUF_TRUNCATED'
  /**
   * The file contradicts itself or exceeds a limit of SECURITY.md: it is damaged, or was written by
   * a faulty tool. Get it again, or convert the model again.
   */
  | 'ERR_GGUF_INVALID'
  /**
   * The source cannot be read: the file does not exist or is a folder, a part of a split model is
   * missing, or a custom source returned something unexpected. Check the path or URL in the
   * message.
   */
  | 'ERR_SOURCE'
  /**
   * The model has an architecture that quantlet does not run. Choose a model of one that it does;
   * the message lists them.
   */
  | 'ERR_UNSUPPORTED_ARCH'
  /**
   * A tensor has a type without kernels. Requantise the model; cast your own tensors to a type that
   * the message names.
   */
  | 'ERR_UNSUPPORTED_TYPE'
  /**
   * The file names a kind of tokenizer that quantlet does not read. Choose another model; the
   * message lists the kinds that are read.
   */
  | 'ERR_UNSUPPORTED_TOKENIZER'
  /**
   * The file lacks a key that its architecture, its tokenizer or this use needs. Convert the model
   * again with a recent converter.
   */
  | 'ERR_MISSING_METADATA'
  /**
   * The file lacks a tensor that its architecture needs. It is incomplete, or its architecture is
   * not the one it claims.
   */
  | 'ERR_MISSING_TENSOR'
  /**
   * The shapes of two tensors do not fit together. In a program that uses quantlet/core, check the
   * `ne` in the message; in a model file, convert the model again.
   */
  | 'ERR_TENSOR_SHAPE'
  /**
   * The required memory exceeds what the machine gives, or one layer exceeds the limit of a
   * WebAssembly memory (4 GiB). Take a smaller model or quantisation, a shorter context, fewer
   * parallel sequences or a smaller type for the cache.
   */
  | 'ERR_OUT_OF_MEMORY'
  /**
   * The prompt, or the prompt and its answer, does not fit the context. Shorten it, load the model
   * with a larger contextLength (`-c`), or set onContextFull (`--context-shift`).
   */
  | 'ERR_CONTEXT_FULL'
  /**
   * An argument or option is unknown, has the wrong type or is out of range. The message names it,
   * says what was found and what was expected.
   */
  | 'ERR_INVALID_ARGUMENT'
  /**
   * The runtime has no WebAssembly SIMD, or the machine is big-endian or the runtime a 32-bit one.
   * Use a 64-bit Node 20.19 or newer, Chrome 91, Firefox 89, Safari 16.4 or newer.
   */
  | 'ERR_NO_SIMD'
  /**
   * The requested build does not run here, or the page's content security policy forbids compiling
   * WebAssembly. Leave the build to quantlet; allow `'wasm-unsafe-eval'` in the policy's
   * `script-src`.
   */
  | 'ERR_BUILD_UNAVAILABLE'
  /**
   * A worker thread ended or could not be started. Repeat the call, because a loaded model stays
   * usable. If no worker starts in a page, check the policy's `worker-src`, or pass createWorker.
   */
  | 'ERR_WORKER_LOST'
  /**
   * A bundler left out files that quantlet needs on a server. Install the package where the bundle
   * runs, or keep the package external: `serverExternalPackages: ['quantlet']` in Next,
   * `--external:quantlet` with esbuild.
   */
  | 'ERR_BUNDLED'
  /**
   * The model or engine was disposed of and then used, or disposed of during the call. Load it
   * again.
   */
  | 'ERR_DISPOSED'
  /**
   * A plan of quantlet/core is running, and the call would change its memory: await compute()
   * first. Or a model that should be replaced or removed is open in another program: close that
   * first.
   */
  | 'ERR_BUSY'
  /**
   * The model computed numbers from which no token can be chosen, such as NaN or only -Infinity, or
   * which a vector of fewer bits cannot express. The file is damaged or its weights overflow: get
   * it again, or try another quantisation.
   */
  | 'ERR_LOGITS'
  /**
   * A grammar or JSON schema does not parse, contradicts itself or exceeds a limit of SECURITY.md.
   * The message says where.
   */
  | 'ERR_GRAMMAR'
  /**
   * The chat template does not parse, refuses the conversation or never reads it. Check the roles
   * and their order, or give another template as chatTemplate (`--chat-template`).
   */
  | 'ERR_CHAT_TEMPLATE'
  /**
   * A saved state is damaged, of another version, of another model, or of another cache type. Save
   * it again; load the model with the same cache types.
   */
  | 'ERR_STATE'
  /**
   * A LoRA adapter does not fit the model, or an adapter was given where a model belongs. Load the
   * model that the adapter was made for, and give the adapter as `lora` (`--lora`).
   */
  | 'ERR_ADAPTER'
  /**
   * A file could not be downloaded: the server refused it, it was not found, the connection failed
   * repeatedly, or the bytes had the wrong checksum. Check the address, the token and the
   * connection, then try again: downloaded bytes are kept, and the download resumes.
   */
  | 'ERR_DOWNLOAD'
  /**
   * An image is neither PNG nor JPEG, or its file is damaged, or its shape cannot be resized. Get
   * it again, convert it, or give its pixels.
   */
  | 'ERR_IMAGE_INVALID'
  /** An image file ends before its data does, usually because a download was cut off. Get it again. */
  | 'ERR_IMAGE_TRUNCATED'
  /**
   * An image has more pixels than the limits of SECURITY.md allow. Make it smaller; models see at
   * most a few megapixels.
   */
  | 'ERR_IMAGE_TOO_LARGE'
  /**
   * A sound is no WAV file, or its format is not read, or it has no samples or some that are not
   * finite. Convert it to WAV, or give its samples.
   */
  | 'ERR_AUDIO_INVALID'
  /** A sound has more samples than the limits of SECURITY.md allow. Cut it into pieces. */
  | 'ERR_AUDIO_TOO_LARGE'
  /**
   * The command line cannot be understood: an unknown or unsupported flag, a missing value, or
   * flags that exclude each other. The command exits with 2; `--help` lists its flags.
   */
  | 'ERR_USAGE'
  /**
   * Writing or reading a file of your own failed, or a port could not be opened. The message says
   * why: a full disk, a missing permission, a port in use.
   */
  | 'ERR_IO';

/** Type of a value of the wrong kind, for messages. */
export const typeName = (value: unknown): string => (value === null ? 'null' : typeof value);

/** A value for messages: short values as they are, large ones by their type. */
export function tell(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}...` : value);
  if (typeof value === 'function') return 'a function';
  if (value === null || typeof value !== 'object') return typeof value === 'bigint' ? `${value}n` : String(value);
  if (Array.isArray(value)) return 'a list';
  const name = Object.prototype.toString.call(value).slice(8, -1);
  return name === 'Object' ? ('ne' in value ? 'a tensor' : 'an object') : `an object of type ${name}`;
}

/**
 * The only error class of the package. `code` is stable. `message` is one line for people; text
 * quoted from files and servers in it cannot control a terminal.
 */
export class QuantletError extends Error {
  readonly code: QuantletErrorCode;

  constructor(code: QuantletErrorCode, message: string, options?: ErrorOptions) {
    super(printable(message), options);
    this.name = 'QuantletError';
    this.code = code;
  }
}
