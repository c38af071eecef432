/** Terminals for tests of commands that are typed to. */
import { spawn, spawnSync } from 'node:child_process';
import { expect } from 'vitest';

/** True if util-linux's `script` is installed. */
export const hasTerminal = /util-linux/.test(spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '');

/** A terminal that runs a command, for typing keys into. */
export function inTerminal(command: string, env: Record<string, string> = {}) {
  const child = spawn('script', ['-qfec', command, '/dev/null'], { env: { ...process.env, TERM: 'xterm', QUANTLET_HISTORY: '', ...env } });
  let seen = '';
  let read = 0;
  child.stdout.on('data', (bytes: Buffer) => (seen += bytes.toString()));
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  return {
    /** Types keys, then waits for output after the last awaited output. */
    async type(keys: string, until: RegExp): Promise<void> {
      child.stdin.write(keys);
      for (const end = Date.now() + 30_000; ;) {
        const found = until.exec(seen.slice(read));
        if (found) return void (read += found.index + found[0].length);
        if (Date.now() > end) throw new Error(`after ${JSON.stringify(keys)}: no ${until} in ${JSON.stringify(seen.slice(read))}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async end(keys: string): Promise<void> {
      child.stdin.write(keys);
      expect(await ended, seen).toBe(0);
    },
    seen: () => seen,
    /** The exit code. */
    ended,
  };
}
/** A command line for a shell, quoted because paths may have spaces. */
export const shellLine = (...words: readonly (string | number)[]): string =>
  words.map((word) => `'${String(word).replaceAll("'", `'\\''`)}'`).join(' ');
