/**
 * Programs that a bundler has made one file of, on a server. They use kernels, workers and Piscina
 * of the package installed next to the bundle.
 */
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { rolldown } from 'rolldown';
import { expect, it } from 'vitest';
import { root, runNode, shippedModel, temporaryFolder } from './support.ts';

const PROGRAM = `import { loadModel } from 'quantlet';
(async () => {
  const model = await loadModel(process.argv[2], { threads: 2 });
  console.log((await model.generate('Once upon a time', { maxTokens: 6, temperature: 0 }).result()).text);
  await model.dispose();
})().catch((error) => console.log(error.code, error.message));
`;

/** Makes a project with the package installed and the program above. */
function project(): string {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(fileURLToPath(root), join(folder, 'node_modules/quantlet'), 'junction');
  writeFileSync(join(folder, 'main.mjs'), PROGRAM);
  return folder;
}

async function bundle(bundler: string, folder: string, format: 'esm' | 'cjs'): Promise<string> {
  const file = join(folder, 'out', format === 'esm' ? 'main.mjs' : 'main.cjs');
  const input = join(folder, 'main.mjs');
  if (bundler === 'esbuild')
    await build({ bundle: true, platform: 'node', format, entryPoints: [input], outfile: file, logLevel: 'silent' });
  else {
    const made = await rolldown({ input, platform: 'node', cwd: folder, logLevel: 'silent' });
    const { output } = await made.generate({ format, codeSplitting: false });
    await made.close();
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, output[0].code);
  }
  return file;
}

const run = async (file: string, cwd: string): Promise<string> => (await runNode([file, shippedModel], { cwd })).stdout.trim();

it.each([
  ['esbuild', 'esm'],
  ['esbuild', 'cjs'],
  ['Rolldown', 'esm'],
  ['Rolldown', 'cjs'],
] as const)('%s, %s: tells the story, wherever it is run', async (bundler, format) => {
  const folder = project();
  const file = await bundle(bundler, folder, format);
  expect(await run(file, temporaryFolder())).toBe(', there was a little girl');
  // Moved elsewhere, it finds the package of the process's working folder.
  const moved = join(temporaryFolder(), format === 'esm' ? 'main.mjs' : 'main.cjs');
  cpSync(file, moved);
  expect(await run(moved, folder)).toBe(', there was a little girl');
});

it.each(['esm', 'cjs'] as const)('%s without the package: ERR_BUNDLED says what to do', async (format) => {
  const file = await bundle('esbuild', project(), format);
  const moved = join(temporaryFolder(), format === 'esm' ? 'main.mjs' : 'main.cjs');
  cpSync(file, moved);
  const said = await run(moved, dirname(moved));
  expect(said).toMatch(/^ERR_BUNDLED .*node\.cjs is missing: .*install quantlet where the bundle runs/);
  expect(said).toContain("serverExternalPackages: ['quantlet']");
});

it('a package of another version is not used: its kernels may read plans differently', async () => {
  const file = await bundle('esbuild', project(), 'esm');
  const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string };
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'node_modules/quantlet'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/quantlet/package.json'), '{ "name": "quantlet", "version": "0.0.1" }');
  cpSync(file, join(folder, 'main.mjs'));
  expect(await run(join(folder, 'main.mjs'), folder)).toContain(
    `ERR_BUNDLED the bundle has quantlet ${version}, ${join(folder, 'node_modules/quantlet')} has 0.0.1`,
  );
});
