/**
 * All commands, in the order of the help. Each is imported on demand, so that a command line starts
 * sooner.
 */
import type { Command } from './command.ts';

const LOADERS: Readonly<Record<string, () => Promise<Command>>> = {
  run: async () => (await import('./run.ts')).run,
  chat: async () => (await import('./chat.ts')).chat,
  serve: async () => (await import('./serve.ts')).serve,
  batch: async () => (await import('./batch.ts')).batch,
  embed: async () => (await import('./embed.ts')).embed,
  bench: async () => (await import('./bench.ts')).bench,
  perplexity: async () => (await import('./perplexity.ts')).perplexity,
  imatrix: async () => (await import('./imatrix.ts')).imatrix,
  quantize: async () => (await import('./quantize.ts')).quantize,
  rotate: async () => (await import('./rotate.ts')).rotate,
  sparsify: async () => (await import('./sparsify.ts')).sparsify,
  tokenize: async () => (await import('./tokenize.ts')).tokenize,
  grammar: async () => (await import('./grammar.ts')).grammar,
  inspect: async () => (await import('./inspect-command.ts')).inspectCommand,
  'gguf-split': async () => (await import('./gguf-split.ts')).ggufSplit,
  'gguf-hash': async () => (await import('./gguf-hash.ts')).ggufHash,
  completion: async () => (await import('./completion.ts')).completionOf(allCommands),
};

export const COMMAND_NAMES: readonly string[] = Object.keys(LOADERS);

export const allCommands = (): Promise<readonly Command[]> => Promise.all(Object.values(LOADERS).map((load) => load()));

/** Finds a command by its name or by the name of the llama.cpp tool that it replaces. */
export async function loadCommand(name: string): Promise<Command | undefined> {
  if (Object.hasOwn(LOADERS, name)) return LOADERS[name]();
  return (await allCommands()).find(({ llama, alsoLlama = [] }) => llama === name || alsoLlama.includes(name));
}
