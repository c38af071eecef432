/**
 * Writes files.json: for each tensor of the files in file-cases.ts, a hash of the type and bytes
 * that native llama.cpp's quantiser writes,
 * and for projectors a hash of the whole file. For developers; tests only read the file. Packages to
 * install: see make-mixes.ts.
 *
 *   npx tsx test/quantize/make-files.ts FOLDER
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readGGUF } from '../../src/gguf/read.ts';
import { parseFtype } from '../../src/quantize/ftype.ts';
import { toBytes } from '../../src/io/source.ts';
import { caseName, FILE_CASES, hashOf, imatrixOf, modelFile, PROJECTOR_CASES, sha256 } from './file-cases.ts';
import { loadNative, type Params } from './native.ts';

const native = loadNative(process.argv[2]);
const folder = mkdtempSync(join(tmpdir(), 'quantlet-files-'));
const [first, again, output] = ['a', 'b', 'c'].map((name) => join(folder, `${name}.gguf`));

const quantize = async (
  input: string,
  to: string,
  ftype: string,
  options: { pure?: true; imatrix?: true; allow_requantize?: boolean },
): Promise<boolean> => {
  const params: Params = {
    ...native.defaults(),
    ftype: parseFtype(ftype).id,
    nthread: 1,
    allow_requantize: options.allow_requantize ?? false,
    pure: options.pure ?? false,
  };
  if (options.imatrix)
    params.imatrix = native.imatrix(
      Array.from(imatrixOf((await readGGUF(toBytes(readFileSync(input)))).tensors.values()), ([name, data]) => ({ name, data })),
    );
  return native.quantize(input, to, params) === 0;
};

const golden: Record<string, string> = {};
for (const c of FILE_CASES) {
  writeFileSync(first, modelFile(c.model));
  if (c.from && !(await quantize(first, again, c.from, {}))) throw new Error(`${caseName(c)}: ${c.from} failed`);
  const ok = await quantize(c.from ? again : first, output, c.ftype, {
    pure: c.pure,
    imatrix: c.imatrix,
    allow_requantize: c.from !== undefined,
  });
  if (!ok) throw new Error(`${caseName(c)} failed`);
  const file = readFileSync(output);
  const { tensors } = await readGGUF(toBytes(file));
  golden[caseName(c)] = Array.from(tensors.values(), (t) => hashOf(file, t)).join(' ');
}
for (const { file, ftype } of PROJECTOR_CASES) {
  const input = fileURLToPath(new URL(`../golden/vision/${file}`, import.meta.url));
  if (!(await quantize(input, output, ftype, { allow_requantize: true }))) throw new Error(`${file} ${ftype} failed`);
  golden[`${file} ${ftype}`] = sha256(readFileSync(output));
}
rmSync(folder, { recursive: true });
writeFileSync(new URL('files.json', import.meta.url), `${JSON.stringify(golden).replaceAll('","', '",\n"')}\n`);
