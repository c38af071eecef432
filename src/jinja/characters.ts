/** Texts by their characters, which Python counts; JavaScript counts units of UTF-16. */

const surrogates = /[\ud800-\udbff][\udc00-\udfff]/;
/** Whether characters are more than UTF-16's units. */
export const isWide = (text: string): boolean => surrogates.test(text);
/** Characters as Python counts them. */
export const textLength = (text: string): number => (isWide(text) ? Array.from(text).length : text.length);
/** A text by its characters, for what has to find them by their numbers. */
export const characters = (text: string): string | string[] => (isWide(text) ? Array.from(text) : text);
export const sliceText = (text: string, from?: number, to?: number): string => {
  const chars = characters(text);
  return typeof chars === 'string' ? chars.slice(from, to) : chars.slice(from, to).join('');
};

/** Whether a text has more than so many characters; a long one is not counted. */
export const longerThan = (text: string, count: number): boolean =>
  text.length > count && (text.length > 2 * count || textLength(text) > count);

/** The first characters of a text, whose rest is not looked at. */
export function headOf(text: string, count: number): string {
  let at = 0;
  for (let n = 0; n < count && at < text.length; n++) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return text.slice(0, at);
}
