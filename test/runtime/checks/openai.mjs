// The same tests by the official client against one handler, served by Node, Deno, Bun and workerd.
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { app, here, model, run, start, tool } from '../lib/consumer.mjs';
import { checkServer } from '../lib/openai-suite.mjs';
import { freePort, STEP_MS, until } from '../lib/wait.mjs';
import { configure, modules, version as workerdVersion, workerd } from './edges.mjs';

const LISTENS = /listens at (http:\S+)/;
const imports =
  "import { loadModel } from 'quantlet';\nimport { createHandler, nodeListener } from 'quantlet/openai';\nimport { createApp } from './openai-app.mjs';\n";
const SERVE = {
  node: `import { createServer } from 'node:http';\nconst server = createServer(nodeListener(handler)).listen(0, '127.0.0.1', () => console.log('listens at http://127.0.0.1:' + server.address().port));`,
  deno: `Deno.serve({ port: 0, hostname: '127.0.0.1', onListen: ({ port }) => console.log('listens at http://127.0.0.1:' + port) }, handler);`,
  bun: `const server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 60, fetch: handler });\nconsole.log('listens at http://127.0.0.1:' + server.port);`,
};

/** Runs the suite against a running server. `told`: options of checkServer. */
async function judge(server, url, version, told) {
  try {
    const { faults, count } = await checkServer(url, told);
    return { faults, version, checked: `${count} of the official clients' checks` };
  } finally {
    await server.stop();
  }
}

const row = (name, kind, command, before, told) => ({
  name: `quantlet/openai in ${name}`,
  async run() {
    copyFileSync(join(here, 'lib/openai-app.mjs'), join(app, 'openai-app.mjs'));
    const file = join(app, `openai-${kind}.mjs`);
    writeFileSync(file, `${imports}const handler = await createApp(loadModel, createHandler, ${JSON.stringify(model)});\n${SERVE[kind]}\n`);
    const { stdout } = await run(command(), ['--version']);
    const server = await start(command(), [...before, file], LISTENS);
    return judge(server, server.found[1], /\d+\.\d+\.\d+/.exec(stdout)[0], told);
  },
});

const edge = {
  name: 'quantlet/openai in workerd',
  async run() {
    const folder = join(app, 'workerd-openai');
    const port = await freePort();
    mkdirSync(folder, { recursive: true });
    copyFileSync(join(here, 'lib/openai-app.mjs'), join(folder, 'openai-app.mjs'));
    // Nothing may be computed before the first request.
    writeFileSync(
      join(folder, 'main.src.mjs'),
      `${imports}import bytes from 'quantlet/models/tiny-stories-q4_0.bin';\nlet app;\nexport default {\n  async fetch(request, env, ctx) {\n    return (await (app ??= createApp(loadModel, createHandler, bytes, 1)))(request, ctx);\n  },\n};\n`,
    );
    await build({
      entryPoints: { main: join(folder, 'main.src.mjs') },
      bundle: true,
      format: 'esm',
      outdir: folder,
      conditions: ['workerd', 'worker', 'browser'],
      plugins: [modules(folder)],
      logLevel: 'error',
    });
    configure(folder, 'main.js', port);
    const server = await start(workerd(), ['serve', '--verbose', 'config.capnp'], /listening|started|/, { cwd: folder });
    const url = `http://127.0.0.1:${port}`;
    await until('workerd to listen', async () => (await fetch(`${url}/health`, { signal: AbortSignal.timeout(STEP_MS) })).ok).catch(
      async (error) => {
        await server.stop();
        throw error;
      },
    );
    return judge(server, url, await workerdVersion());
  },
};

export const openai = [
  row('Node', 'node', () => process.execPath, []),
  // On a busy machine Deno may not read the end of such a connection until the answer is written
  // (its socket stays in CLOSE_WAIT).
  row('Deno', 'deno', () => tool('@deno/linux-x64-glibc/deno'), ['run', '-A', '--node-modules-dir=manual', '--no-lock'], {
    noticesLeaving: false,
  }),
  row('Bun', 'bun', () => tool('@oven/bun-linux-x64/bin/bun'), ['run']),
  edge,
];
