/** Files that lie next to a language model and are none, told by their names. */

interface Helper {
  /** The kind of file, for messages. */
  readonly what: string;
  /** Parts of a file's name that only this kind has: those that llama.cpp leaves out (common/download.cpp). A model may be named MTP in capitals. */
  readonly sure?: RegExp;
  /** Words of a file's name, or names of folders. A model may have them too. */
  readonly words?: RegExp;
}

/** Whole words. A blank is any way to join two: `text_encoder`, `text-encoder`, `textencoder`. */
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
/** Folders of drafters; as a word of a file's name it names models that have such layers. */
const MTP = /^mtp$/i;

/** The kind that a file's name says for sure; undefined for what may be a model. */
export const sureHelper = (name: string): string | undefined => HELPERS.find(({ sure }) => sure?.test(name))?.what;

/**
 * The kind of a file of a repository that is no language model of its own, by its path; undefined for what may be one.
 * @param repo the repository's name: words that it has itself say what its models are, not what sets one of its files apart
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

/** The words that a folder's name consists of: `loras`, but not `lora-tests`. */
const wholly = (folder: string, found: RegExp): RegExpMatchArray[] => [...folder.matchAll(found)].filter(([text]) => text === folder);
