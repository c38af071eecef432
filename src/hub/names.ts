/**
 * Checks of names from outside that become file names. A name must mean the same file, and stay in
 * its folder, on every system.
 */
import { QuantletError } from '../errors.ts';

/** Device names of Windows. Text after a dot does not matter: NUL.gguf is a device too. */
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?:[ .]|$)/i;
/**
 * Bytes of a name in most file systems, minus the longest suffix: `.TAG.part`, `.json`, `.lock`.
 */
const MOST_BYTES = 255 - 20;

/** The reason why Windows cannot have a file of that name, or would change the name. */
export function whyNotOnWindows(name: string): string | undefined {
  const [bad] = /[\\/:*?"<>|\p{Cc}]/u.exec(name) ?? [];
  if (bad !== undefined) return `it has the character ${JSON.stringify(bad)}`;
  if (/[. ]$/.test(name)) return 'it ends with a dot or a space, which Windows drops';
  return DEVICE.test(name) ? 'it is a device on Windows' : undefined;
}

/**
 * The reason why a text cannot be the name of a file or folder on every system; undefined if it
 * can.
 */
export function whyNoName(name: string): string | undefined {
  if (name === '') return 'it is empty';
  if (/^\.+$/.test(name)) return 'it has nothing but dots';
  const why = whyNotOnWindows(name);
  if (why !== undefined) return why;
  if (new TextEncoder().encode(name).length > MOST_BYTES) return `it has more than ${MOST_BYTES} bytes`;
  return undefined;
}

/**
 * Returns a path from outside if each of its parts is a valid name on every system.
 * @throws ERR_DOWNLOAD
 */
export function checkedPath(path: string): string {
  for (const part of path.split('/')) {
    const why = whyNoName(part);
    if (why !== undefined)
      throw new QuantletError(
        'ERR_DOWNLOAD',
        `"${path}" cannot be the name of a file in a repository: ${why}${part === path || part === '' ? '' : ` ("${part}")`}; expected folders and a name, separated by /`,
      );
  }
  return path;
}
