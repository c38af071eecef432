/** Recognises, by name, files of a repository that accompany a language model but are not one. */

interface Helper {
  /** Kind of file, for messages. */
  readonly what: string;
  /**
   * Parts of a file's name that only this kind has: those that llama.cpp skips
   * (common/download.cpp). MTP in capitals may be part of a model's name.
   */
  readonly sure?: RegExp;
  /** Words of a file's name, or names of folders. A model's name may contain them too. */
  readonly words?: RegExp;
}

/**
 * Matches whole words. A blank in the list stands for any separator: `text_encoder`,
 * `text-encoder`, `textencoder`.
 */
const words = (list: string): RegExp => new RegExp(`(?<![a-z0-9])(?:${list.replaceAll(' ', '[-_. ]?')})(?![a-z0-9])`, 'gi');

const HELPERS: readonly Helper[] = [
  { what: 'a projector', sure: /mmproj/i, words: words('mm proj|mm projector|projector') },
  { what: 'an importance matrix', sure: /imatrix/i },
  {
    what: 'a drafter',
    sure: /mtp-|eagle3-|dflash-|dspark-|^[mM][tT][pP](?![a-zA-Z0-9])/,
    words: words('eagle3|dflash|dspark|medusa|nextn|drafts?|drafters?|speculators?'),
  },
  { what: 'an adapter', words: words('loras?|adapters?|control net') },
  { what: 'a control vector', words: words('(?:control|steering) vectors?|c ?vec(?:tor)?s?') },
  { what: 'a vocabulary', words: words('vocab|tokenizer') },
  {
    what: 'a part of a model of images or sounds',
    words: words(
      'vae|taesd|ae|clip(?: [lgh])?|t5 xxl|unet|vocoder|codec|snac|wav tokenizer|(?:text|vision|image|video|audio|speech) (?:en|de)coders?',
    ),
  },
];
/**
 * A folder of this name has drafters. In a file's name, the word means a model with such layers.
 */
const MTP = /^mtp$/i;

/**
 * The kind of helper that a file's name identifies with certainty; undefined for a file that may be
 * a model.
 */
export const sureHelper = (name: string): string | undefined => HELPERS.find(({ sure }) => sure?.test(name))?.what;

/**
 * The kind of helper that a file of a repository is, by its path; undefined if it may be a model.
 * @param repo the repository's name. A word that it contains describes its models, and so does not
 * mark a file as a helper.
 */
export function helperKind(path: string, repo = ''): string | undefined {
  const [name, ...folders] = path.split('/').reverse();
  const sure = sureHelper(name);
  if (sure !== undefined) return sure;
  if (folders.some((folder) => MTP.test(folder))) return 'a drafter';
  const own = repo.slice(repo.indexOf('/') + 1).toLowerCase();
  return HELPERS.find(({ words: found }) => {
    const said = found === undefined ? [] : [...name.matchAll(found), ...folders.flatMap((folder) => wholly(folder, found))];
    return said.some(([text]) => !own.includes(text.toLowerCase()));
  })?.what;
}

/** The match that covers a folder's whole name: `loras` matches, `lora-tests` does not. */
const wholly = (folder: string, found: RegExp): RegExpMatchArray[] => [...folder.matchAll(found)].filter(([text]) => text === folder);
