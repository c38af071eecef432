// examples/bullmq as in its README, on a real redis-server, with two workers. One of them is
// stopped in the middle.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { project, run } from '../lib/consumer.mjs';
import { until } from '../lib/wait.mjs';

const LINES = 60;
const prompt = (i) => `Once upon a time there was a ${['dog', 'cat', 'fox'][i % 3]}`;
const body = (i) => ({ prompt: prompt(i), max_tokens: i === 7 ? -5 : 24, temperature: 0 });
const lines = Array.from({ length: LINES }, (_, i) =>
  JSON.stringify({ custom_id: `line:${i}`, method: 'POST', url: '/v1/completions', body: body(i) }),
);

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

export const queue = [
  {
    name: 'examples/bullmq (Redis)',
    async run() {
      if (!existsSync('/usr/bin/redis-server')) throw new Error('redis-server is missing');
      const cwd = project('bullmq');
      const manifest = JSON.parse(readFileSync(join(cwd, 'package.json'), 'utf8'));
      delete manifest.dependencies.quantlet; // the packed package is found instead
      writeFileSync(join(cwd, 'package.json'), JSON.stringify(manifest));
      await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd });
      const folder = mkdtempSync(join(tmpdir(), 'quantlet-redis-'));
      const port = await freePort();
      const started = [];
      const start = (command, args, env = {}) => {
        const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] });
        started.push(child);
        let said = '';
        child.stderr.on('data', (chunk) => (said += chunk));
        return { child, said: () => said, exit: new Promise((resolve) => child.on('exit', (code, signal) => resolve(code ?? signal))) };
      };
      const env = { REDIS_URL: `redis://127.0.0.1:${port}` };
      try {
        start('/usr/bin/redis-server', [
          '--port',
          String(port),
          '--bind',
          '127.0.0.1',
          '--dir',
          folder,
          '--save',
          '',
          '--appendonly',
          'yes',
        ]);
        writeFileSync(join(folder, 'in.jsonl'), `${lines.join('\n')}\n`);
        await run(process.execPath, ['producer.mjs', join(folder, 'in.jsonl')], { cwd, env });
        const workers = [0, 1].map(() => start(process.execPath, ['worker.mjs'], env));
        const watch = start(process.execPath, ['watch.mjs'], env);
        await until('a worker with its model', () => workers[0].said().includes('answers'));
        await new Promise((resolve) => setTimeout(resolve, 1000));
        workers[0].child.kill('SIGTERM');
        const codes = [await workers[0].exit, await watch.exit];
        const out = join(folder, 'out.jsonl');
        await run(process.execPath, ['collect.mjs', out], { cwd, env });
        const records = readFileSync(out, 'utf8')
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line));
        const faults = [];
        if (codes.join() !== '0,0') faults.push(`worker.mjs and watch.mjs ended with ${codes}, expected 0`);
        if (records.length !== LINES || new Set(records.map((record) => record.custom_id)).size !== LINES)
          faults.push(`${records.length} records, expected ${LINES} with a custom_id each`);
        const refused = records.filter((record) => record.error).map((record) => `${record.custom_id} ${record.response?.status_code}`);
        if (refused.join() !== 'line:7 400') faults.push(`refused: ${refused}, expected line:7 alone`);
        return { faults, checked: `${LINES} lines` };
      } finally {
        for (const child of started) child.kill('SIGKILL');
        rmSync(folder, { recursive: true, force: true });
      }
    },
  },
];
