// Node 20 to 26, Deno and Bun.
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { app, here, model, project, run, tool } from '../lib/consumer.mjs';
import { judge } from '../lib/judge.mjs';
import { bundleDecoder, visionFolder, visionGolden, visionModel, visionProjector } from '../lib/vision.mjs';

async function prepare() {
  await bundleDecoder(app);
  const [source, mmproj] = [visionModel, visionProjector].map((name) => join(visionFolder, name));
  writeFileSync(join(app, 'vision.json'), JSON.stringify({ source, mmproj, golden: visionGolden }));
  copyFileSync(join(here, 'lib/portable.mjs'), join(app, 'portable.mjs'));
  copyFileSync(join(here, 'golden.json'), join(app, 'golden.json'));
  for (const file of ['server-side.mjs', 'hub-side.mjs']) copyFileSync(join(here, 'checks', file), join(app, file));
}

const story = /^Once upon a time, there was/;
async function example(name, command, args) {
  const { stdout } = await run(command, args, { cwd: project(name) });
  if (!story.test(stdout)) throw new Error(`examples/${name} printed ${JSON.stringify(stdout.slice(0, 200))}, expected a story`);
}

/** The Node example that answers about a picture. */
async function pictureExample() {
  const picture = join(app, 'shapes.png');
  writeFileSync(picture, Buffer.from(visionGolden.pictures['shapes.png'].data, 'base64'));
  const files = [visionModel, visionProjector].map((name) => join(visionFolder, name));
  const { stdout } = await run(process.execPath, ['picture.mjs', ...files, picture], { cwd: project('node') });
  if (stdout.trim() === '') throw new Error('examples/node/picture.mjs printed nothing');
}

const row = (name, command, before, extra, facts) => ({
  name,
  async run(reference) {
    await prepare();
    const { stdout } = await run(command(), [...before, join(app, 'server-side.mjs'), model]);
    const result = judge(JSON.parse(stdout.trim().split('\n').at(-1)), reference);
    const { stdout: hub } = await run(command(), [...before, join(app, 'hub-side.mjs'), model]);
    if (!hub.endsWith('all right\n')) result.faults.push(`quantlet/hub: ${hub.trim()}`);
    await extra?.();
    const { stdout: version } = await run(command(), ['--version']);
    return { ...result, ...facts, version: /\d+\.\d+\.\d+/.exec(version)[0] };
  },
});

const machine = process.versions.node.split('.')[0];
const node = (major) => () => tool(`node-${major}/bin/node`);
const deno = () => tool('@deno/linux-x64-glibc/deno');
const bun = () => tool('@oven/bun-linux-x64/bin/bun');
const manual = ['--node-modules-dir=manual', '--no-lock'];

export const servers = [
  // The machine's own Node is the reference for the others' kernels, so it comes first.
  {
    ...row(
      `Node ${machine} (the machine's)`,
      () => process.execPath,
      [],
      async () => {
        await example('node', process.execPath, ['index.mjs']);
        await pictureExample();
      },
      machine === '20' ? { relaxed: 'by flag' } : {},
    ),
    isReference: true,
  },
  ...[22, 24, 26].map((major) => row(`Node ${major}`, node(major), [])),
  row('Deno', deno, ['run', '-A', ...manual], () =>
    example('deno', deno(), ['run', ...manual, '--allow-read', '--allow-env', '--allow-sys', 'main.ts']),
  ),
  row('Bun', bun, ['run'], () => example('bun', bun(), ['run', 'index.ts'])),
];
