/**
 * The Hugging Face hub: suggested models, search, files of a repository. It is contacted only when
 * somebody searches or opens a repository.
 */
import { fileUrl } from '../../../src/hub/addresses.ts';
import { modelsAmong, partsOf } from '../../../src/hub/choose-file.ts';
import { sureHelper } from '../../../src/hub/helper-files.ts';
import { HUB, withoutSlash, type Hub, type Repo } from '../../../src/hub/repository.ts';
import { listRepo } from '../../../src/hub/requests.ts';
import { PageError } from '../backend.ts';

export interface Suggestion {
  readonly repo: string;
  readonly file: string;
  readonly title: string;
  readonly about: string;
  /** Size of the file. */
  readonly bytes: number;
  /** The projector of a model that sees. */
  readonly projector?: ModelFile;
}

/**
 * Models small enough for a page and known to follow instructions. Sizes are rounded file sizes.
 */
export const SUGGESTIONS: readonly Suggestion[] = [
  {
    repo: 'bartowski/SmolLM2-135M-Instruct-GGUF',
    file: 'SmolLM2-135M-Instruct-Q8_0.gguf',
    title: 'SmolLM2 135M',
    about: 'The smallest that answers: simple questions, short texts.',
    bytes: 145e6,
  },
  {
    repo: 'ggml-org/SmolVLM-256M-Instruct-GGUF',
    file: 'SmolVLM-256M-Instruct-Q8_0.gguf',
    title: 'SmolVLM 256M',
    about: 'Describes pictures.',
    bytes: 175e6,
    projector: { path: 'mmproj-SmolVLM-256M-Instruct-Q8_0.gguf', bytes: 104e6 },
  },
  {
    repo: 'Qwen/Qwen2.5-0.5B-Instruct-GGUF',
    file: 'qwen2.5-0.5b-instruct-q4_0.gguf',
    title: 'Qwen2.5 0.5B',
    about: 'Many languages; lists, JSON and calls of functions.',
    bytes: 429e6,
  },
  {
    repo: 'Qwen/Qwen3-0.6B-GGUF',
    file: 'Qwen3-0.6B-Q8_0.gguf',
    title: 'Qwen3 0.6B',
    about: 'Thinks before it answers, which takes time and helps.',
    bytes: 639e6,
  },
  {
    repo: 'bartowski/Llama-3.2-1B-Instruct-GGUF',
    file: 'Llama-3.2-1B-Instruct-Q4_0.gguf',
    title: 'Llama 3.2 1B',
    about: 'Summaries and conversation in eight languages.',
    bytes: 773e6,
  },
];

/**
 * Hub settings of a page: no token. The publisher of the page can name a mirror in
 * `<meta name="quantlet:hub" content="https://…">`.
 */
const hub = (): Hub => {
  const named = document.querySelector<HTMLMetaElement>('meta[name="quantlet:hub"]')?.content;
  return {
    endpoint: named && URL.canParse(named) ? withoutSlash(named) : HUB,
    token: undefined,
    headers: {},
    signal: undefined,
    names: {},
  };
};
export const hubHost = (): string => new URL(hub().endpoint).host;
const repoOf = (name: string): Repo => ({ name, revision: 'main' });

export const addressOf = (repo: string, file: string): string => fileUrl(hub(), repoOf(repo), file);

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
const records = (value: unknown): Record<string, unknown>[] => (Array.isArray(value) ? value.map(record) : []);

export interface Found {
  readonly repo: string;
  readonly downloads: number;
}

/**
 * Finds repositories with GGUF files, the most downloaded first.
 * @throws PageError
 */
export async function search(text: string): Promise<readonly Found[]> {
  const query = new URLSearchParams({ search: text, filter: 'gguf', sort: 'downloads', direction: '-1', limit: '20' });
  const failed = (why: string): PageError => new PageError(`The search failed: ${hubHost()} ${why}.`);
  const response = await fetch(`${hub().endpoint}/api/models?${query}`, { signal: AbortSignal.timeout(30_000) }).catch((error: Error) => {
    throw failed(`cannot be reached (${error.message})`);
  });
  if (!response.ok) throw failed(`answered with status ${response.status}`);
  return records(await response.json())
    .filter(({ id, gated }) => typeof id === 'string' && !gated)
    .map(({ id, downloads }) => ({ repo: id as string, downloads: typeof downloads === 'number' ? downloads : 0 }));
}

export interface ModelFile {
  readonly path: string;
  /** Size of all parts, if the model is split. */
  readonly bytes: number;
}

/** Files of a repository, the smallest first. A split model is represented by its first part. */
export interface RepoFiles {
  readonly models: readonly ModelFile[];
  readonly projectors: readonly ModelFile[];
}

/** @throws QuantletError ERR_DOWNLOAD */
export async function filesOf(repo: string): Promise<RepoFiles> {
  const files = await listRepo(hub(), repoOf(repo));
  const sizes = new Map(files.map(({ path, size }) => [path, size]));
  const sized = (list: readonly { readonly path: string }[]): ModelFile[] =>
    list
      .map(({ path }) => ({ path, bytes: partsOf(path).reduce((sum, part) => sum + (sizes.get(part) ?? 0), 0) }))
      .sort((a, b) => a.bytes - b.bytes);
  const isProjector = (path: string): boolean => path.endsWith('.gguf') && sureHelper(path.split('/').at(-1)!) === 'a projector';
  return { models: sized(modelsAmong(files, repo)), projectors: sized(files.filter(({ path }) => isProjector(path))) };
}
