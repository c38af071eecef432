/** Folder for files that quantlet can download or compute again. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * The cache folder: downloaded models, results of turbo's self-test, and V8's code cache of the
 * command line.
 */
export function cacheFolder(env: Readonly<NodeJS.ProcessEnv>, platform: NodeJS.Platform = process.platform): string {
  if (env.QUANTLET_CACHE) return env.QUANTLET_CACHE;
  if (env.XDG_CACHE_HOME) return join(env.XDG_CACHE_HOME, 'quantlet');
  if (platform === 'win32') return join(env.LOCALAPPDATA || join(homedir(), 'AppData', 'Local'), 'quantlet');
  return join(homedir(), platform === 'darwin' ? 'Library/Caches' : '.cache', 'quantlet');
}
