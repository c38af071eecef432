/** Where quantlet keeps what can be made or had again. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The folder of downloaded models, of what turbo's self-tests said, and of V8's code for the command line. */
export function cacheFolder(env: Readonly<NodeJS.ProcessEnv>, platform: NodeJS.Platform = process.platform): string {
  if (env.QUANTLET_CACHE) return env.QUANTLET_CACHE;
  if (env.XDG_CACHE_HOME) return join(env.XDG_CACHE_HOME, 'quantlet');
  if (platform === 'win32') return join(env.LOCALAPPDATA || join(homedir(), 'AppData', 'Local'), 'quantlet');
  return join(homedir(), platform === 'darwin' ? 'Library/Caches' : '.cache', 'quantlet');
}
