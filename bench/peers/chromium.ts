/**
 * Headless Chromium and a server in this process. Every measurement runs on a new page of the same
 * browser, cross-origin isolated, so that engines with threads can use them. A page defines
 * `window.measure(job)`. Its imports are served from `folders`, the model as /model.
 */
import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { resolve, sep } from 'node:path';
import type { BrowserPeers } from './install.ts';

export interface Job {
  readonly threads: number;
  readonly repetitions: number;
  /** Kind, tokens, depth. */
  readonly tests: readonly (readonly [kind: string, tokens: number, depth: number])[];
}
export interface Result {
  readonly test: string;
  readonly rate: number;
}

export interface EnginePage {
  /** Text of a module script that sets window.measure = async (job) => Result[]. */
  readonly script: string;
  /** URL prefix with slashes around it -> folder. */
  readonly folders: { readonly [prefix: string]: string };
}

export interface Chromium {
  readonly version: string;
  measure(engine: EnginePage, model: string, job: Job): Promise<Result[]>;
  close(): Promise<void>;
}

/**
 * The parts of playwright-core that are used. It is installed with the peers, not with the package.
 */
interface Page {
  goto(url: string): Promise<unknown>;
  waitForFunction(expression: string): Promise<unknown>;
  evaluate<A, R>(code: (argument: A) => R, argument: A): Promise<Awaited<R>>;
  on(event: 'pageerror', listener: (e: Error) => void): void;
  close(): Promise<void>;
}
interface Playwright {
  readonly chromium: {
    launch(options: {
      executablePath: string;
      args: string[];
    }): Promise<{ newPage(): Promise<Page>; version(): string; close(): Promise<void> }>;
  };
}

const ISOLATED = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
};
const TYPES: { readonly [ending: string]: string } = { js: 'text/javascript', wasm: 'application/wasm' };
const QUIET = [
  '--no-sandbox',
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-extensions',
];

export async function startChromium({ modules, chromium: executablePath }: BrowserPeers): Promise<Chromium> {
  if (!executablePath) throw new Error('there is no Chromium: apt-get install chromium, or set CHROMIUM to its path');
  const { chromium } = createRequire(resolve(modules, 'x.js'))('playwright-core') as Playwright;
  const browser = await chromium.launch({ executablePath, args: QUIET });

  /** Serves one engine's page, its files and the model. */
  async function serve({ script, folders }: EnginePage, model: string): Promise<{ origin: string; close(): void }> {
    const server = createServer((request, response) => {
      const { pathname } = new URL(request.url!, 'http://localhost');
      if (pathname === '/')
        return void response
          .writeHead(200, { ...ISOLATED, 'content-type': 'text/html' })
          .end(`<!doctype html><script type="module">${script}</script>`);
      const prefix = Object.keys(folders).find((p) => pathname.startsWith(p));
      const path = pathname === '/model' ? resolve(model) : prefix && resolve(folders[prefix], pathname.slice(prefix.length));
      try {
        if (!path || (prefix && !path.startsWith(resolve(folders[prefix]) + sep))) throw new Error('not served');
        const { size } = statSync(path);
        response.writeHead(200, {
          ...ISOLATED,
          'content-type': TYPES[path.split('.').pop()!] ?? 'application/octet-stream',
          'content-length': size,
        });
        createReadStream(path).pipe(response);
      } catch {
        response.writeHead(404, ISOLATED).end();
      }
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    return {
      origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      close: () => (server.close(), server.closeAllConnections()),
    };
  }

  return {
    version: browser.version(),
    async measure(engine, model, job) {
      const server = await serve(engine, model);
      const page = await browser.newPage();
      try {
        page.on('pageerror', (e) => console.error(`in the page: ${e.message}`));
        await page.goto(server.origin);
        await page.waitForFunction('window.measure !== undefined && crossOriginIsolated');
        return await page.evaluate((j: Job) => (globalThis as unknown as { measure(job: Job): Promise<Result[]> }).measure(j), job);
      } finally {
        await page.close();
        server.close();
      }
    },
    close: () => browser.close(),
  };
}
