/** Choice of the model among the files of a repository. */
import { splitName, splitNames } from '../gguf/split.ts';
import { helperKind } from './helper-files.ts';
import { checkedPath } from './names.ts';
import { failed, type HubFile, type Repo, type Wanted } from './repository.ts';

/**
 * Quants to look for, in this order, if neither a quant nor a file is requested, as in llama.cpp.
 */
const QUANTS = ['Q4_K_M', 'Q8_0'];
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
export const isModel = (path: string): boolean => /\.gguf$/i.test(path);

/** The names of all parts of a file, in order; empty for undefined. */
export function partsOf(path: string | undefined): readonly string[] {
  if (path === undefined) return [];
  const folder = path.slice(0, path.length - nameOf(path).length);
  return splitNames(nameOf(path))?.map((name) => folder + name) ?? [path];
}

/** The models among the files of a repository; a split model is represented by its first part. */
export const modelsAmong = <F extends { readonly path: string }>(files: readonly F[], repo?: string): readonly F[] =>
  files.filter(({ path }) => isModel(path) && helperKind(path, repo) === undefined && (splitName(nameOf(path))?.no ?? 1) === 1);

/**
 * Chooses a file of a repository by quant, or its first part if it is split, as llama.cpp does. A
 * requested quant must be there. Without a request: Q4_K_M, else Q8_0, else the first model. A
 * quant may also be the name of a folder.
 */
export function chooseFile<F extends { readonly path: string }>(files: readonly F[], quant?: string, repo?: string): F | undefined {
  const models = modelsAmong(files, repo);
  for (const wanted of quant === undefined ? QUANTS : [quant]) {
    const named = models.find(({ path }) => names(path, wanted, /[-.]/)) ?? models.find(({ path }) => names(path, wanted, /\//));
    if (named) return named;
  }
  return quant === undefined ? models[0] : undefined;
}

/**
 * True if a path names a quant. The name must be followed by a character of `end`, and not begin
 * inside a word: IQ4_0 does not name Q4_0.
 */
function names(path: string, quant: string, end: RegExp): boolean {
  const [text, wanted] = [path.toLowerCase(), quant.toLowerCase()];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1))
    if (end.test(text[at + wanted.length] ?? '') && !/[a-z0-9]/.test(text[at - 1] ?? '-')) return true;
  return false;
}

/** Folders of a path. */
const foldersOf = (path: string): readonly string[] => path.split('/').slice(0, -1);

/** Bits of the quant that ends a file's name: 4 of `m-Q4_K_M.gguf`; 0 without one. */
function quantBits(path: string): number {
  const name = nameOf(path).replace(/\.gguf$/i, '');
  const [, tag = ''] = /[-.](\w+)$/.exec(name.replace(/-\d{5}-of-\d{5}$/, '')) ?? [];
  return parseInt(/\d+/.exec(tag)?.[0] ?? '0', 10);
}

/**
 * Chooses the projector of a model of the same repository, as llama.cpp does: one in the model's
 * folder, or in the nearest folder around it, whose quant has the number of bits nearest to the
 * model's. Undefined without one.
 */
export function chooseProjector<F extends { readonly path: string }>(files: readonly F[], model: string): F | undefined {
  const own = foldersOf(model);
  const around = (path: string): boolean => foldersOf(path).every((folder, i) => folder === own[i]);
  const distance = (path: string): number => Math.abs(quantBits(path) - quantBits(model));
  return files
    .filter(({ path }) => isModel(path) && /mmproj/i.test(path) && path !== model && around(path))
    .sort((a, b) => foldersOf(b.path).length - foldersOf(a.path).length || distance(a.path) - distance(b.path))[0];
}

/** Chooses the wanted file of a repository, or its first part if it is split. */
export const choose = <F extends { readonly path: string }>(files: readonly F[], { name }: Repo, wanted: Wanted): F | undefined =>
  'file' in wanted ? files.find(({ path }) => path === wanted.file) : chooseFile(files, wanted.quant, name);

/** Description of the wanted model, for messages. */
export const wantedText = (wanted: Wanted): string =>
  'file' in wanted ? wanted.file : `GGUF model${wanted.quant === undefined ? '' : ` ${wanted.quant}`}`;

/**
 * The GGUF files of a repository, for messages. Files that are not models are shown with their
 * kind.
 */
function listed(files: readonly HubFile[], repo: string): string {
  const models = files.map(({ path }) => path).filter(isModel);
  if (models.length === 0) return 'expected a repository with .gguf files';
  const shown = models.slice(0, 20).map((path) => {
    const kind = helperKind(path, repo);
    return kind === undefined ? path : `${path} (by its name ${kind})`;
  });
  const named = modelsAmong(files, repo).length === 0 ? `; to use one of them all the same, name it: hf:${repo}/${models[0]}` : '';
  return `it has ${shown.join(', ')}${models.length > 20 ? ', ...' : ''}${named}`;
}

/**
 * All parts of the wanted model of a repository.
 * @throws ERR_DOWNLOAD if it or one of its parts is missing
 */
export function filesOf(files: readonly HubFile[], repo: Repo, wanted: Wanted): readonly HubFile[] {
  const { name } = repo;
  const names = partsOf(choose(files, repo, wanted)?.path);
  if (names.length === 0) throw failed(`${name} has no ${wantedText(wanted)}; ${listed(files, name)}`);
  const byPath = new Map(files.map((file) => [file.path, file]));
  const missing = names.find((path) => !byPath.has(path));
  if (missing !== undefined) throw failed(`${name} has no ${missing}, which is a part of ${names[0]}: the repository is incomplete`);
  return names.map((path) => byPath.get(checkedPath(path))!);
}
