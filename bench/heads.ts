/**
 * Costs and savings of generating with some of attention's heads (`--attn-heads`, Deja Vu).
 *
 * Usage:
 *
 *   node --import tsx bench/heads.ts MODEL-F32.gguf TEXT [--shares 0.75,0.5] [--type q4_0]
 *     [--out FILE.md]
 *
 * The command `quantlet sparsify --heads` makes the model. NLL (nats per token) is that of TEXT in
 * windows of 256. The first half of a window is a prompt. The second half is counted, each token
 * with the heads that generation gives it. Ids are those of a greedy story.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { against, describeMachine, JUDGED, judged, machine, numbers, said, table } from './support.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    shares: { type: 'string', default: '0.875,0.75,0.625,0.5' },
    type: { type: 'string', default: 'f32' },
    out: { type: 'string' },
  },
});
const [source, text] = positionals;
if (positionals.length !== 2)
  throw new Error('expected: bench/heads.ts MODEL-F32.gguf TEXT [--shares X,...] [--type TYPE] [--out FILE.md]');
const CTX = 256;
const folder = mkdtempSync(join(tmpdir(), 'heads-'));
try {
  const [rowsOfHeads, quantised] = ['heads.gguf', 'quantised.gguf'].map((name) => join(folder, name));
  said('sparsify', '-m', source, '-o', rowsOfHeads, '--heads');
  if (values.type !== 'f32') said('quantize', '--pure', rowsOfHeads, quantised, values.type);
  const model = values.type === 'f32' ? rowsOfHeads : quantised;
  const whole = judged(model, text, CTX);
  const rows = [['all, dense', ...against(whole, whole)]];
  for (const share of [1, ...numbers(values.shares)])
    rows.push([`${share}`, ...against(judged(model, text, CTX, ['--attn-heads', `${share}`]), whole)]);
  const command = `node --import tsx bench/heads.ts ${basename(source)} ${basename(text)} --shares ${values.shares} --type ${values.type}`;
  const report = `# Heads that are left out of ${basename(source)}, ${values.type}\n\n${describeMachine(machine())}\n\n${table(['heads', ...JUDGED], rows)}\n\n\`${command}\`\n`;
  if (values.out === undefined) process.stdout.write(report);
  else writeFileSync(values.out, report);
} finally {
  rmSync(folder, { recursive: true });
}
