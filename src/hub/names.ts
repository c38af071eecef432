/** Names from outside as names of files: they must mean the same, and lead nowhere else, on every system. */
import { QuantletError } from '../errors.ts';

/** Devices of Windows, whatever follows a dot: NUL.gguf is one too. */
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?:[ .]|$)/i;
/** Bytes of a name in most file systems, less what is put behind it: `.TAG.part`, `.json`, `.lock`. */
const MOST_BYTES = 255 - 20;

/** The reason why Windows has no file of that name, or has it by another name. */
export function whyNotOnWindows(name: string): string | undefined {
  const [bad] = /[\\/:*?"<>|\p{Cc}]/u.exec(name) ?? [];
  if (bad !== undefined) return `it has the character ${JSON.stringify(bad)}`;
  if (/[. ]$/.test(name)) return 'it ends with a dot or a space, which Windows drops';
  return DEVICE.test(name) ? 'it is a device on Windows' : undefined;
}

/** The reason why a text cannot be the name of a file or folder everywhere; undefined if it can. */
export function whyNoName(name: string): string | undefined {
  if (name === '') return 'it is empty';
  if (/^\.+$/.test(name)) return 'it has nothing but dots';
  const why = whyNotOnWindows(name);
  if (why !== undefined) return why;
  if (new TextEncoder().encode(name).length > MOST_BYTES) return `it has more than ${MOST_BYTES} bytes`;
  return undefined;
}

/** A path from outside, its parts held to what names may be on every system. @throws ERR_DOWNLOAD */
export function checkedPath(path: string): string {
  for (const part of path.split('/')) {
    const why = whyNoName(part);
    if (why !== undefined)
      throw new QuantletError(
        'ERR_DOWNLOAD',
        `"${path}" is not the name of a file in a repository: ${why}${part === path || part === '' ? '' : ` ("${part}")`}; expected folders and a name, separated by /`,
      );
  }
  return path;
}
