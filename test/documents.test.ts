/**
 * The targets of the documents exist: files, npm scripts, options of benches and builds. They are
 * easily forgotten when renamed.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { ARCHITECTURES } from '../src/arch/registry.ts';
import { root } from './support.ts';

const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
const inGit = existsSync(new URL('.git', root));
const namesBelow = (folder: string): string[] =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name.replaceAll('\\', '/')}`);
/** Files of the checkout; in an unpacked archive, those of its folders. */
const files = inGit
  ? execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).split('\n')
  : readdirSync(root)
      .filter((name) => name !== 'node_modules')
      .flatMap((name) => [name, ...(statSync(new URL(name, root)).isDirectory() ? namesBelow(name) : [])]);

/** Made-up names in the recipes. */
const MADE_UP = /foo|row_range|q6_0|my-?flag|MODEL|FILE|FOLDER|</;

const pages = readdirSync(new URL('docs', root)).filter((name) => name.endsWith('.md'));

/** GitHub's anchors for the headings of a page. */
const anchors = (page: string): readonly string[] =>
  [...page.replaceAll(/^```[^]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

describe.each([
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'bench/README.md',
  ...pages.map((name) => `docs/${name}`),
])('%s', (document) => {
  const text = read(document);
  const quoted = [...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code);

  it('names files that are there', () => {
    const named = quoted
      .flatMap((code) => code.match(/[\w./-]*[\w-]+\.(?:ts|mjs|mts|c|md)\b(?!\()/g) ?? [])
      .filter((name) => !MADE_UP.test(name));
    const missing = named.filter((name) => !files.some((file) => file === name || file.endsWith(`/${name.replace(/^(\.\.?\/)+/, '')}`)));
    expect(missing).toEqual([]);
  });

  it('links to files that are there', () => {
    const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, link]) => link);
    expect(links.filter((link) => !existsSync(new URL(link, new URL(document, root))))).toEqual([]);
  });

  it('links to headings that are there', () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)#([^)]+)\)/g)];
    const gone = links.filter(([, path, heading]) => {
      const page = path === '' ? text : readFileSync(new URL(path, new URL(document, root)), 'utf8');
      return !anchors(page).includes(heading);
    });
    expect(gone.map(([link]) => link)).toEqual([]);
  });

  it('names scripts of package.json that are there', () => {
    const named = [...text.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });
});

it('README.md leads to every page of docs/', () => {
  const readme = read('README.md');
  expect(pages.filter((name) => !readme.includes(`docs/${name}`))).toEqual([]);
});

it('docs/models.md has all architectures', () => {
  const models = read('docs/models.md');
  expect(ARCHITECTURES.filter(({ name }) => !models.includes(`\`${name}\``)).map(({ name }) => name)).toEqual([]);
});

/** Names of an interface's members in a source file, except internal ones. */
function members(path: string, name: string): readonly string[] {
  const file = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest, true);
  const found = file.statements.find((node) => ts.isInterfaceDeclaration(node) && node.name.text === name) as ts.InterfaceDeclaration;
  return found.members.filter((member) => !member.getFullText().includes('@internal')).map((member) => member.name!.getText());
}

it('docs/api.md has all options', () => {
  const api = read('docs/api.md');
  const options = [
    ...members('src/load-options.ts', 'LoadOptions'),
    ...members('src/web/options.ts', 'WebOptions'),
    ...members('src/generate/options.ts', 'GenerateOptions'),
    ...members('src/sample/options.ts', 'SamplerOptions'),
    ...members('src/grammar/constraint.ts', 'ConstraintOptions'),
    ...members('src/chat/options.ts', 'ChatOptions'),
    ...members('src/chat/generation.ts', 'ModelChatOptions'),
    ...members('src/generate/embed.ts', 'EmbedOptions'),
  ];
  expect(options.length).toBeGreaterThan(60);
  expect(options.filter((name) => !new RegExp(`\\b${name}\\b`).test(api))).toEqual([]);
});
