/** Formats of strings as regular expressions, from the grammars of their specifications. */

const LEAP_YEAR = '(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)';
const DATE = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|${LEAP_YEAR}-02-29)`;
const CLOCK = '(?:[01][0-9]|2[0-3]):[0-5][0-9]';
const FRACTION = '(?:\\.[0-9]{1,20})?';
/** full-time of RFC 3339. A leap second is the last one of a day in UTC; see LEAP_SECONDS. */
const TIME = `(?:${CLOCK}:[0-5][0-9]${FRACTION}(?:[Zz]|[+\\-]${CLOCK})|23:59:60${FRACTION}(?:[Zz]|[+\\-]00:00))`;

const OCTET = '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const IPV4 = `${OCTET}(?:\\.${OCTET}){3}`;
const H16 = '[0-9a-fA-F]{1,4}';
const LS32 = `(?:${H16}:${H16}|${IPV4})`;
/** IPv6address of RFC 3986. */
const IPV6 = `(?:${[
  `(?:${H16}:){6}${LS32}`,
  `::(?:${H16}:){5}${LS32}`,
  `(?:${H16})?::(?:${H16}:){4}${LS32}`,
  ...[3, 2, 1, 0].map((after) => `(?:(?:${H16}:){0,${4 - after}}${H16})?::(?:${H16}:){${after}}${LS32}`),
  `(?:(?:${H16}:){0,5}${H16})?::${H16}`,
  `(?:(?:${H16}:){0,6}${H16})?::`,
].join('|')})`;

const LABEL = '[a-zA-Z0-9](?:[a-zA-Z0-9\\-]{0,61}[a-zA-Z0-9])?';
const HOST = `${LABEL}(?:\\.${LABEL})*`;
const ATOM = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~\\-]+";
const MAILBOX = `(?:${ATOM}(?:\\.${ATOM})*|"(?:[ !#-\\[\\]-~]|\\\\[ -~])*")`;

/** Parts of URIs of RFC 3986; `wide` has the further characters of IRIs (RFC 3987). */
function addresses(wide: string, priv = ''): { readonly uri: string; readonly reference: string } {
  const escaped = '%[0-9a-fA-F]{2}';
  const unreserved = `a-zA-Z0-9\\-._~${wide}`;
  const subDelimiters = "!$&'()*+,;=";
  const pchar = `(?:[${unreserved}${subDelimiters}:@]|${escaped})`;
  const address = `\\[(?:${IPV6}|[vV][0-9a-fA-F]+\\.[a-zA-Z0-9\\-._~!$&'()*+,;=:]+)\\]`;
  const authority = `(?:(?:[${unreserved}${subDelimiters}:]|${escaped})*@)?(?:${address}|(?:[${unreserved}${subDelimiters}]|${escaped})*)(?::[0-9]*)?`;
  const tail = `(?:\\?(?:${pchar}|[/?${priv}])*)?(?:#(?:${pchar}|[/?])*)?`;
  const hierarchy = `//${authority}(?:/${pchar}*)*|/(?:${pchar}+(?:/${pchar}*)*)?`;
  const uri = `[a-zA-Z][a-zA-Z0-9+\\-.]*:(?:${hierarchy}|${pchar}+(?:/${pchar}*)*)?${tail}`;
  const noColon = `(?:[${unreserved}${subDelimiters}@]|${escaped})`;
  return { uri, reference: `(?:${uri}|(?:${hierarchy}|${noColon}+(?:/${pchar}*)*)?${tail})` };
}
const URI = addresses('');
const IRI = addresses(
  '\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}\\u{30000}-\\u{dfffd}',
  '\\ue000-\\uf8ff\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}',
);

const WIDE_LABEL =
  '[^\\x00-,./:-@\\[-`{-\\x7f\\s\\-\\u3002\\uff0e\\uff61](?:[^\\x00-,./:-@\\[-`{-\\x7f\\s\\u3002\\uff0e\\uff61]{0,61}[^\\x00-,./:-@\\[-`{-\\x7f\\s\\-\\u3002\\uff0e\\uff61])?';
const POINTER = '(?:/(?:[^~/]|~[01])*)*';
const VARIABLE = '(?:[a-zA-Z0-9_]|%[0-9a-fA-F]{2})(?:\\.?(?:[a-zA-Z0-9_]|%[0-9a-fA-F]{2}))*(?::[1-9][0-9]{0,3}|\\*)?';
const UUID = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}';
const CLOCK_DURATION = 'T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)';
const DATE_DURATION = '(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)';

/** Pattern of what precedes the time of a date-time. */
export const BEFORE_TIME = `${DATE}[Tt]`;

/** Patterns of whole texts, by format. */
export const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${BEFORE_TIME}${TIME}`,
  duration: `P(?:${DATE_DURATION}(?:${CLOCK_DURATION})?|${CLOCK_DURATION}|[0-9]+W)`,
  uuid: UUID,
  ipv4: IPV4,
  'ip-address': IPV4,
  ipv6: IPV6,
  hostname: `(?=.{1,253}$)${HOST}`,
  'host-name': `(?=.{1,253}$)${HOST}`,
  'idn-hostname': `${WIDE_LABEL}(?:[.\\u3002\\uff0e\\uff61]${WIDE_LABEL})*`,
  email: `${MAILBOX}@(?:${HOST}|\\[(?:${IPV4}|IPv6:${IPV6})\\])`,
  'idn-email': `(?:[^@\\s"\\x00-\\x1f]+|"[^"\\x00-\\x1f]*")@${WIDE_LABEL}(?:\\.${WIDE_LABEL})*`,
  uri: URI.uri,
  url: URI.uri,
  'uri-reference': URI.reference,
  iri: IRI.uri,
  'iri-reference': IRI.reference,
  'uri-template': `(?:[^\\x00- "<>\\\\^\`{|}%\\x7f-\\x9f]|%[0-9a-fA-F]{2}|\\{[+#./;?&=,!@|]?${VARIABLE}(?:,${VARIABLE})*\\})*`,
  'json-pointer': POINTER,
  'relative-json-pointer': `(?:0|[1-9][0-9]*)(?:#|${POINTER})`,
  byte: '(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?',
  base64: '(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?',
  base64url: '[A-Za-z0-9_\\-]*',
};

/** Formats that a regular language holds only in part, with the reason. */
export const FORMATS_IN_PART: Readonly<Record<string, string>> = {
  hostname: 'labels of the form xn--... are not decoded',
  'host-name': 'labels of the form xn--... are not decoded',
  'idn-hostname': 'the rules of IDNA for neighbouring characters are not held',
  regex: 'regular expressions are not a regular language',
};

const two = (n: number): string => String(n).padStart(2, '0');

/** Leap seconds of time zones that are whole or half hours away from UTC. */
export const LEAP_SECONDS: readonly string[] = Array.from({ length: 24 }, (_, hours) => [
  `${two((23 + hours) % 24)}:59:60+${two(hours)}:00`,
  `${two(hours)}:29:60+${two(hours)}:30`,
  `${two(23 - hours)}:59:60-${two(hours)}:00`,
  `${two(23 - hours)}:29:60-${two(hours)}:30`,
]).flat();
