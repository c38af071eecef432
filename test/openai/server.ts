import { spawn } from 'node:child_process';
import { cliPath } from '../support.ts';

export interface Served {
  readonly url: string;
  readonly pid: number;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** Nobody reads what it says any more. */
  closeStderr(): void;
  /** Exit code, or the signal that ended it. */
  readonly exit: Promise<number | NodeJS.Signals | null>;
}

/** The exit code after SIGTERM; on Windows, where no process hears a signal, the signal. */
export const AFTER_SIGTERM = process.platform === 'win32' ? 'SIGTERM' : 0;

/** `quantlet serve` on a free port, up when this resolves. */
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

/** A value of the server's metrics. */
export async function metric(url: string, name: string, headers: Record<string, string> = {}): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.split(' ')[1],
  );
}

/** Waits until something holds, for some seconds at most. */
export async function until(holds: () => boolean | Promise<boolean>, ms = 10_000): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20)))
    if (await holds()) return true;
  return holds();
}
