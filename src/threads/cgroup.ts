/** Control groups of Linux, in which containers, systemd and Slurm limit processes. */

/** @throws if the file does not exist */
export type TextOf = (path: string) => string;

const ROOT = '/sys/fs/cgroup';

function textAt(text: TextOf, path: string): string {
  try {
    return text(path);
  } catch {
    return '';
  }
}

/** Numbers of a file: NaN for a word, 0 if it cannot be read. */
export const numbersOf = (text: TextOf, path: string): number[] => textAt(text, path).trim().split(/\s+/).map(Number);

/** The folders of a path, from the outermost on: /a/b has root, root/a and root/a/b. */
const foldersOf = (root: string, path: string): string[] =>
  path
    .split('/')
    .filter(Boolean)
    .reduce((folders, part) => [...folders, `${folders.at(-1)}/${part}`], [root]);

/**
 * Folders of the groups that contain this process, from the outermost to its own: each may have a
 * limit. The path of a container's group may be as the host sees it, which does not exist in the
 * container.
 * @param controller of cgroup v1, where each has groups of its own
 */
export function groupFolders(text: TextOf, controller: 'memory' | 'cpu'): { readonly v1: string[]; readonly v2: string[] } {
  const groups = textAt(text, '/proc/self/cgroup')
    .split('\n')
    .map((line) => /^\d+:([^:]*):(.*)$/.exec(line));
  const pathOf = (name: string): string => groups.find((group) => group?.[1].split(',').includes(name))?.[2] ?? '/';
  return { v1: foldersOf(`${ROOT}/${controller}`, pathOf(controller)), v2: foldersOf(ROOT, pathOf('')) };
}
