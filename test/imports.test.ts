/**
 * Rules of imports: no cycles in src/ or assembly/ (types included), and each folder of src/
 * imports only what it may.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { root } from './support.ts';

type Imports = ReadonlyMap<string, readonly string[]>;

/** By file: the files of the same folder that it imports, by paths from that folder. */
function importsOf(folder: string): Imports {
  const at = fileURLToPath(new URL(`${folder}/`, root));
  const files = readdirSync(at, { recursive: true, encoding: 'utf8' })
    .map((f) => f.replaceAll('\\', '/'))
    .filter((f) => f.endsWith('.ts'));
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const { importedFiles } = ts.preProcessFile(readFileSync(join(at, file), 'utf8'));
      const targets = importedFiles.filter((i) => i.fileName.startsWith('.')).map((i) => posix.join(posix.dirname(file), i.fileName));
      return [file, targets.map((t) => (known.has(t) ? t : `${t}.ts`)).filter((t) => known.has(t))];
    }),
  );
}

/** Every import that leads back to its own file, as a path: a, b, c, a. */
function cycles(imports: Imports): string[][] {
  const found: string[][] = [];
  const done = new Set<string>();
  const way: string[] = [];
  const follow = (file: string): void => {
    const at = way.indexOf(file);
    if (at >= 0) return void found.push([...way.slice(at), file]);
    if (done.has(file)) return;
    way.push(file);
    imports.get(file)?.forEach(follow);
    way.pop();
    done.add(file);
  };
  for (const file of imports.keys()) follow(file);
  return found;
}

it('the search finds a cycle, whichever file it begins with', () => {
  const imports: Imports = new Map([
    ['a', ['b', 'd']],
    ['b', ['c']],
    ['c', ['b']],
    ['d', ['b', 'd']],
  ]);
  expect(cycles(imports)).toEqual([
    ['b', 'c', 'b'],
    ['d', 'd'],
  ]);
});

describe.each(['src', 'assembly'])('%s/', (folder) => {
  const imports = importsOf(folder);
  it('has files that import each other', () => expect([...imports.values()].flat().length).toBeGreaterThan(imports.size));
  it('has no import cycle', () => expect(cycles(imports)).toEqual([]));
});

describe('allowed imports of each part of src/', () => {
  const imports = importsOf('src');
  /** Files that do not match the pattern and import one that does. */
  const importersOf = (pattern: RegExp): string[] =>
    [...imports].filter(([file, targets]) => !pattern.test(file) && targets.some((t) => pattern.test(t))).map(([file]) => file);
  const text = (file: string): string => readFileSync(new URL(`src/${file}`, root), 'utf8');

  it('the command line is imported by its own entry only', () => expect(importersOf(/^cli\//)).toEqual(['cli.ts']));

  it('the tools are imported by their entry and the command line only', () => {
    expect(importersOf(/^tools\//).filter((file) => !/^(cli\/.*|entry\/tools\.ts)$/.test(file))).toEqual([]);
  });

  it('entries are imported by the command line and the tools only', () => {
    expect(importersOf(/^entry\//).filter((file) => !/^((cli|tools)\/|cli\.ts$)/.test(file))).toEqual([]);
  });

  it('models: plan/ imports neither run/ nor load/, run/ does not import load/, and only entries load', () => {
    const from = (folder: string): readonly string[] => [...imports].flatMap(([file, targets]) => (file.startsWith(folder) ? targets : []));
    expect(from('plan/').filter((target) => /^(run|load)\//.test(target))).toEqual([]);
    expect(from('run/').filter((target) => target.startsWith('load/'))).toEqual([]);
    expect(importersOf(/^load\//).filter((file) => !/^(entry\/\w+|web\/edge)\.ts$/.test(file))).toEqual([]);
  });

  it('web/ is for entries and for workers of pages; loading and the hub know its options', () => {
    const known =
      /^(entry\/(browser|common|core|edge-light|hub-browser|workerd)|hub\/options|threads\/(remote|web)|worker\/web|load-options)\.ts$/;
    expect(importersOf(/^web\//).filter((file) => !known.test(file))).toEqual([]);
  });

  it('Node is known to its entry, its threads and workers, the command line, the tools, and the listener for its servers', () => {
    const known =
      /^(cli|cli\/.*|entry\/node-platform|hub\/(cache-folder|download|hash|kept-models|lock|model-store|places|replace)|server\/http\/node-listener|threads\/(node|package-files|rows-node)|tools\/.*|turbo\/(compile|verdict)|worker\/(node|quantize|turbo))\.ts$/;
    const users = [...imports.keys()].filter((file) =>
      ts.preProcessFile(text(file)).importedFiles.some((i) => /^(node:|piscina$)/.test(i.fileName)),
    );
    expect(users.filter((file) => !known.test(file))).toEqual([]);
  });

  it('the command line loads nothing of web/', () => {
    const loaded = new Set<string>();
    const load = (file: string): void => {
      if (loaded.has(file)) return;
      loaded.add(file);
      // Type imports do not reach the JavaScript.
      const code = text(file).replace(/^(import|export) type [^;]*;/gm, '');
      const left = ts.preProcessFile(code).importedFiles.map((i) => posix.join(posix.dirname(file), i.fileName));
      imports
        .get(file)
        ?.filter((t) => left.includes(t))
        .forEach(load);
    };
    load('cli.ts');
    expect(loaded.size, 'the command line is more than its entry').toBeGreaterThan(50);
    expect([...loaded].filter((file) => file.startsWith('web/'))).toEqual([]);
  });
});
