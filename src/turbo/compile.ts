/** The kernels with V8's revectoriser, which joins pairs of 128-bit operations into 256-bit ones: Node 24 and newer on x64. */
import { setFlagsFromString } from 'node:v8';

/**
 * What V8 is told while it compiles: to join, and to make optimised code of the whole module at once, so that no function is left to be compiled
 * later, when the flags are as they were. (Inlining would want to know how often functions are called, which nobody has counted by then: Node 26
 * ends the process over it. Since V8 13.7 indirect calls are inlined by a flag of their own, which follows the other at the start of a process only;
 * older versions have it off.)
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

/** A custom section at the end: V8 keeps code by a module's bytes, and would give one that was compiled before without the flags. */
const SECTION = Uint8Array.of(0, 6, 5, ...new TextEncoder().encode('turbo'));

const made = new WeakSet<WebAssembly.Module>();

/** Whether compileTurbo() made it. */
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
 * Compiles on the calling thread, some 0.2 s: V8's flags are those of the process, but nothing else of this thread is compiled while they are set. No
 * other thread may be running wasm that is not compiled yet: Node 24 ended the process when one did. Flags that the process was started with stay.
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
 * The same for a process that is quantlet's own, in which the flags stay: functions are compiled when they are first called, and most never are. Takes
 * next to no time here, and some 30 ms of the first step.
 */
export function compileTurboLazily(bytes: Uint8Array): WebAssembly.Module {
  for (const flag of TURBO_FLAGS) if (flag !== '--no-wasm-lazy-compilation') setFlagsFromString(flag);
  return compile(bytes);
}
