/** Texts by their characters, which Python counts; JavaScript counts units of UTF-16. */

const surrogates = /[\ud800-\udbff][\udc00-\udfff]/;
/** Whether characters are more than UTF-16's units. */
export const isWide = (text: string): boolean => surrogates.test(text);
/** Characters as Python counts them. */
export function textLength(text: string): number {
  let length = text.length;
  for (let at = text.search(surrogates); at >= 0 && at < text.length; at++)
    if (isPair(text, at)) {
      length--;
      at++;
    }
  return length;
}
const isPair = (text: string, at: number): boolean => text.codePointAt(at)! > 0xffff;
/** The character at a place, from the end where that is below 0; undefined where there is none. No list of all characters is made for it. */
export function characterAt(text: string, index: number): string | undefined {
  if (!isWide(text)) return text.at(index);
  const from = index < 0 ? index + textLength(text) : index;
  if (from < 0) return undefined;
  let at = 0;
  for (let n = 0; n < from && at < text.length; n++) at += isPair(text, at) ? 2 : 1;
  return at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : undefined;
}
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
