/**
 * Compilation of the kernels with V8's revectoriser, which joins pairs of 128-bit operations into
 * 256-bit ones: Node 24 and newer on x64.
 */
import { setFlagsFromString } from 'node:v8';

/**
 * V8 flags during compilation: enable the revectoriser and compile everything eagerly with the
 * optimising compiler, so nothing is compiled after the flags are restored.
 *
 * Inlining is off, because it needs call counts, which do not exist at that time: Node 26 crashes.
 * Since V8 13.7 inlining of indirect calls has a flag of its own, which follows the other flag only
 * when the process starts. In older versions it is off by default.
 */
export const TURBO_FLAGS: readonly string[] = [
  '--experimental-wasm-revectorize',
  '--no-liftoff',
  '--no-wasm-lazy-compilation',
  '--no-wasm-inlining',
  ...(inlinesIndirectCalls() ? ['--no-wasm-inlining-call-indirect'] : []),
];

function inlinesIndirectCalls(): boolean {
  const [major, minor] = process.versions.v8.split('.').map(Number);
  return major > 13 || (major === 13 && minor >= 7);
}

const opposite = (flag: string): string => (flag.startsWith('--no-') ? `--${flag.slice(5)}` : `--no-${flag.slice(2)}`);

/**
 * A custom section at the end. V8 caches code by a module's bytes, and would return code compiled
 * earlier without the flags.
 */
const SECTION = Uint8Array.of(0, 6, 5, ...new TextEncoder().encode('turbo'));

const made = new WeakSet<WebAssembly.Module>();

/** True if compileTurbo() made the module. */
export const isTurbo = (module: WebAssembly.Module): boolean => made.has(module);

const marked = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => {
  const copy = new Uint8Array(bytes.length + SECTION.length);
  copy.set(bytes);
  copy.set(SECTION, bytes.length);
  return copy;
};

function compile(bytes: Uint8Array): WebAssembly.Module {
  const module = new WebAssembly.Module(marked(bytes));
  made.add(module);
  return module;
}

/**
 * Compiles on the calling thread, in about 0.2 s. V8's flags belong to the process, but nothing
 * else of this thread is compiled while they are set. No other thread may run wasm that is not
 * compiled yet (Node 24 crashed). Flags with which the process was started stay.
 */
export function compileTurbo(bytes: Uint8Array, flags = TURBO_FLAGS): WebAssembly.Module {
  const given = new Set([...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(' ')].map((flag) => flag.replaceAll('_', '-')));
  flags.forEach((flag) => setFlagsFromString(flag));
  try {
    return compile(bytes);
  } finally {
    for (const flag of flags) if (!given.has(flag)) setFlagsFromString(opposite(flag));
  }
}

/**
 * Compiles in a process of quantlet's own, where the flags stay set. Functions are compiled when
 * first called, and most never are. This takes almost no time here, and about 30 ms of the first
 * step.
 */
export function compileTurboLazily(bytes: Uint8Array): WebAssembly.Module {
  for (const flag of TURBO_FLAGS) if (flag !== '--no-wasm-lazy-compilation') setFlagsFromString(flag);
  return compile(bytes);
}
