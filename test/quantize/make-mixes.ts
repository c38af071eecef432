/**
 * Writes mixes.json: the types that native llama.cpp's quantiser gives to the tensors of the models
 * in mix-models.ts. For developers; tests only read the file. Install the packages in a folder of
 * their own:
 *
 *   npm i --ignore-scripts @node-llama-cpp/linux-x64@3.22.1 koffi
 *   npx tsx test/quantize/make-mixes.ts FOLDER
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readGGUF } from '../../src/gguf/read.ts';
import { inLayerOrder } from '../../src/quantize/pick-types.ts';
import { parseFtype } from '../../src/quantize/ftype.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import type { MixCase } from './mix-models.ts';
import { caseName, MIX_CASES, MIX_MODELS, mixModelFile, PROJECTOR, summarise } from './mix-models.ts';
import { loadNative, type Native } from './native.ts';

const nativeTypes = async (
  native: Native,
  input: string,
  output: string,
  { ftype, options }: MixCase,
): Promise<Record<string, string> | 'error'> => {
  const params = native.defaults();
  params.ftype = parseFtype(ftype).id;
  params.nthread = 1;
  const source = await readGGUF(toBytes(readFileSync(input)));
  if (options === 'pure') params.pure = true;
  if (options === 'leave-output') params.quantize_output_tensor = false;
  if (options === 'output-q5_0') params.output_tensor_type = TYPE.q5_0.id;
  if (options === 'embedding-q5_1') params.token_embedding_type = TYPE.q5_1.id;
  if (options === 'imatrix')
    params.imatrix = native.imatrix(
      Array.from(source.tensors.values(), ({ name, ne }) => ({ name, data: new Float32Array(ne[0] * ne[2]).fill(1) })),
    );
  if (native.quantize(input, output, params) !== 0) return 'error';
  const result = await readGGUF(toBytes(readFileSync(output)));
  return summarise(
    inLayerOrder(result.tensors.values()).map(({ name, type }) => [name, type]),
    parseFtype(ftype).type,
  );
};

const [, script, packages, one] = process.argv;
const native = loadNative(packages);
if (one !== undefined) {
  const [input, output, mix] = JSON.parse(one) as [string, string, MixCase];
  process.stdout.write(JSON.stringify(await nativeTypes(native, input, output, mix)));
  process.exit();
}

/** In a process of its own, which native may abort. */
const typesOfProjector = (...args: readonly [input: string, output: string, mix: MixCase]): unknown => {
  const { status, stdout } = spawnSync(process.execPath, [...process.execArgv, script, packages, JSON.stringify(args)], {
    encoding: 'utf8',
  });
  return status === 0 ? JSON.parse(stdout) : 'error';
};

const folder = mkdtempSync(join(tmpdir(), 'quantlet-mixes-'));
const mixes: Record<string, Record<string, unknown>> = {};
for (const model of MIX_MODELS) {
  const input = join(folder, 'in.gguf');
  writeFileSync(input, mixModelFile(model));
  mixes[model.name] = {};
  const output = join(folder, 'out.gguf');
  for (const mix of MIX_CASES)
    mixes[model.name][caseName(mix)] =
      model.arch === PROJECTOR ? typesOfProjector(input, output, mix) : await nativeTypes(native, input, output, mix);
}
rmSync(folder, { recursive: true });
writeFileSync(new URL('mixes.json', import.meta.url), `${JSON.stringify(mixes).replaceAll('},"', '},\n"')}\n`);
