import { spawn } from 'node:child_process';
import { cliPath } from '../support.ts';

export interface Served {
  readonly url: string;
  readonly pid: number;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** Closes stderr, as if its reader had gone. */
  closeStderr(): void;
  /** Exit code, or the signal that ended the process. */
  readonly exit: Promise<number | NodeJS.Signals | null>;
}

/**
 * Exit code after SIGTERM. On Windows, processes do not receive signals, so there this is the
 * signal.
 */
export const AFTER_SIGTERM = process.platform === 'win32' ? 'SIGTERM' : 0;

/** Starts `quantlet serve` on a free port, and resolves when it answers. */
export function startServer(args: readonly (string | number)[], env: NodeJS.ProcessEnv = {}): Promise<Served> {
  const { NODE_OPTIONS: _, QUANTLET_BUILD: __, LLAMA_API_KEY: ___, ...clean } = process.env;
  const child = spawn(process.execPath, [cliPath, 'serve', '--port', '0', ...args.map(String)], {
    env: { ...clean, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  const exit = new Promise<number | NodeJS.Signals | null>((resolve) => child.on('close', (code, signal) => resolve(code ?? signal)));
  return new Promise((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      const url = /serves .* at (http:\S+)/.exec(stderr)?.[1];
      if (url)
        resolve({
          url,
          pid: child.pid!,
          stderr: () => stderr,
          kill: (signal) => void child.kill(signal),
          closeStderr: () => child.stderr.destroy(),
          exit,
        });
    });
    void exit.then((code) => reject(new Error(`serve ended with ${code}: ${stderr}`)));
  });
}

/** Reads a value of the server's metrics. */
export async function metric(url: string, name: string, headers: Record<string, string> = {}): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.split(' ')[1],
  );
}

/** Waits until a condition holds, for `ms` milliseconds at most. */
export async function until(holds: () => boolean | Promise<boolean>, ms = 10_000): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20)))
    if (await holds()) return true;
  return holds();
}
