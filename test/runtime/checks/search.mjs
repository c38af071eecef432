// examples/search in Node: files are indexed and found, by words and by vectors.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { project, root, run, tool } from '../lib/consumer.mjs';

const TEXTS = {
  'cats.txt': 'the cat sat on the mat. a cat is a small animal.\n\nDogs bark.',
  'towns.txt': 'Paris is in France.\n\nOslo is in Norway, where it snows.',
};

export const search = [
  {
    name: 'examples/search (node:sqlite, sqlite-vec)',
    async run() {
      const folder = project('search');
      for (const [name, text] of Object.entries(TEXTS)) writeFileSync(join(folder, name), text);
      const env = { MODEL: join(root, 'test/golden/arch/bert.gguf'), NODE_NO_WARNINGS: '1' };
      const node = tool('node-24/bin/node');
      const told = async (...args) => (await run(node, ['search.mjs', ...args], { cwd: folder, env })).stdout;
      const faults = [];
      const expect = (what, text, pattern) => pattern.test(text) || faults.push(`${what}: ${text.slice(0, 300)}`);
      expect('index', await told('index', ...Object.keys(TEXTS)), /^cats\.txt: \d+ chunks\ntowns\.txt: \d+ chunks\n$/);
      expect('words', await told('find', 'NEAR "snows'), /^[\d.]+ towns\.txt\n[^]*Oslo/);
      expect('a whole chunk', await told('find', 'Dogs bark.'), /^[\d.]+ cats\.txt\n[^]*Dogs bark/);
      writeFileSync(join(folder, 'cats.txt'), 'Nothing of that kind.');
      await told('index', 'cats.txt');
      if (/Dogs/.test(await told('find', 'Dogs bark.'))) faults.push('a file that was indexed again keeps its old chunks');
      return { faults, version: '24', relaxed: 'yes', threads: 'yes', checked: 'indexed, found by words and by vectors, indexed again' };
    },
  },
];
