import { readFileSync } from 'node:fs';

interface Case {
  texts: string[];
  ids: number[][];
  addSpecial: boolean;
  parseSpecial: boolean;
}

interface Golden {
  bpe: { texts: string[]; groups: { names: string[]; ids: number[][] }[] };
  special: (Case & { pre: string })[];
  wpm: Case[];
  ugm: (Case & { rest: Record<string, unknown> })[];
}

/** Native llama.cpp's results for the vocabularies of tiny.ts. */
export const golden = JSON.parse(readFileSync(new URL('golden.json', import.meta.url), 'utf8')) as Golden;
