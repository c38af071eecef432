/**
 * Downloads of images whose URLs clients choose. Hosts must be on a list, and their addresses must
 * be public: a client must not reach the server's own network through it.
 */
import { lookup } from 'node:dns/promises';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { BlockList, isIP } from 'node:net';
import { QuantletError } from '../errors.ts';
import { HttpError } from '../server/http/http-error.ts';
import { unreadImage, type MediaOptions } from '../server/media.ts';

/** llama-server's limits. */
const MAX_BYTES = 10 * 2 ** 20;
const TIMEOUT_MS = 10_000;
const MAX_REDIRECTS = 3;

/** IPv4 networks that are not public, of IANA's registry of special-purpose addresses. */
const PRIVATE_V4 =
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4';
/** IPv6 addresses outside of this network are not public, or contain an IPv4 address. */
const PUBLIC_V6 = '2000::/3';
/** Networks in it that are not public, or contain an IPv4 address (Teredo, 6to4). */
const PRIVATE_V6 = '2001::/23 2001:db8::/32 2002::/16 3fff::/20';

function listOf(networks: string, family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const network of networks.split(' ')) {
    const [address, bits] = network.split('/');
    list.addSubnet(address, Number(bits), family);
  }
  return list;
}

let lists: { readonly private4: BlockList; readonly public6: BlockList; readonly private6: BlockList } | undefined;

/** True for addresses of the public internet. */
export function isPublicAddress(address: string): boolean {
  lists ??= { private4: listOf(PRIVATE_V4, 'ipv4'), public6: listOf(PUBLIC_V6, 'ipv6'), private6: listOf(PRIVATE_V6, 'ipv6') };
  const family = isIP(address);
  if (family === 4) return !lists.private4.check(address, 'ipv4');
  // A zone (`%eth0`) belongs to a local address.
  return family === 6 && !address.includes('%') && lists.public6.check(address, 'ipv6') && !lists.private6.check(address, 'ipv6');
}

/** A host of the list: a name, `*.` and a name, or `*`; with a scheme or port if they are given. */
export interface MediaHost {
  readonly scheme: string | undefined;
  readonly host: string;
  readonly port: string;
}

/**
 * The hosts of --media-url.
 * @throws ERR_USAGE
 */
export function hostsOf(lists: readonly string[]): MediaHost[] {
  const texts = lists.flatMap((list) => list.split(',')).map((text) => text.trim());
  return texts.filter((text) => text !== '').map(hostOf);
}

function hostOf(text: string): MediaHost {
  const [, scheme, wild, rest] = /^(?:(https?):\/\/)?(\*\.)?(.+?)\/?$/i.exec(text) ?? [];
  if (rest === '*' && wild === undefined) return { scheme: scheme?.toLowerCase(), host: '*', port: '' };
  const url =
    rest !== undefined && /^(?:\[[0-9a-f:.]+\]|[^\s/?#@:*\\%]+)(?::\d+)?$/i.test(rest)
      ? parsed(`${scheme ?? 'http'}://${rest}`)
      : undefined;
  if (!url)
    throw new QuantletError(
      'ERR_USAGE',
      `--media-url is ${JSON.stringify(text)}; expected hosts with commas between them: example.com, *.example.com, https://example.com:8443, or * for all`,
    );
  return { scheme: scheme?.toLowerCase(), host: (wild ?? '') + nameOf(url), port: url.port };
}

function parsed(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** The host without brackets and without the dot that ends a full name. URL writes addresses in one form. */
const nameOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');

function isListed(hosts: readonly MediaHost[], url: URL): boolean {
  const name = nameOf(url);
  return hosts.some(
    ({ scheme, host, port }) =>
      (scheme === undefined || url.protocol === `${scheme}:`) &&
      url.port === port &&
      (host === '*' || host === name || (host.startsWith('*.') && name.endsWith(host.slice(1)))),
  );
}

/** Functions of the system that tests replace. */
export interface Network {
  /** All addresses of a name. */
  readonly resolve: (name: string) => Promise<readonly string[]>;
  readonly isPublic: (address: string) => boolean;
  readonly timeoutMs: number;
}

const NETWORK: Network = {
  resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  isPublic: isPublicAddress,
  timeoutMs: TIMEOUT_MS,
};

const shown = (url: string): string => JSON.stringify(url.slice(0, 200));

/**
 * Downloads an image from a host of the list.
 * @throws HttpError 400, or the signal's reason
 */
export async function downloadImage(
  hosts: readonly MediaHost[],
  url: string,
  { maxBytes, signal }: MediaOptions,
  network: Partial<Network> = {},
): Promise<Uint8Array> {
  const net = { ...NETWORK, ...network };
  const late = AbortSignal.timeout(net.timeoutMs);
  const either = AbortSignal.any([signal, late]);
  try {
    return await followed(hosts, url, Math.min(maxBytes, MAX_BYTES), either, net);
  } catch (error) {
    signal.throwIfAborted();
    if (late.aborted) throw unreadImage(`The image at ${shown(url)} did not arrive in ${net.timeoutMs / 1000} s.`, error);
    throw error instanceof HttpError ? error : unreadImage(`The image at ${shown(url)} cannot be downloaded.`, error);
  }
}

/** Asks, and follows redirections. Each target is checked as the first one is. */
async function followed(
  hosts: readonly MediaHost[],
  first: string,
  maxBytes: number,
  signal: AbortSignal,
  net: Network,
): Promise<Uint8Array> {
  let text = first;
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const url = parsed(text);
    if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '' || !isListed(hosts, url))
      throw unreadImage(`The image at ${shown(text)} may not be downloaded; expected http or https, and a host of --media-url.`);
    const response = await answerOf(url, signal, net);
    const { statusCode = 0, headers } = response;
    if (statusCode >= 300 && statusCode < 400 && headers.location !== undefined) {
      response.destroy();
      text = new URL(headers.location, url).href;
      continue;
    }
    if (statusCode !== 200) {
      response.destroy();
      throw unreadImage(`The server of the image at ${shown(text)} answered with status ${statusCode}.`);
    }
    return bytesOf(response, text, maxBytes);
  }
  throw unreadImage(`The image at ${shown(first)} is redirected more than ${MAX_REDIRECTS} times.`);
}

/** The answer of the first address that can be reached. Addresses are checked, and then used as they are. */
async function answerOf(url: URL, signal: AbortSignal, net: Network): Promise<IncomingMessage> {
  const name = nameOf(url);
  const addresses = isIP(name) ? [name] : await net.resolve(name);
  signal.throwIfAborted();
  if (addresses.length === 0 || !addresses.every(net.isPublic))
    throw unreadImage(`The host of the image at ${shown(url.href)} has no public address.`);
  let failed: unknown;
  for (const address of addresses)
    try {
      return await requested(url, name, address, signal);
    } catch (error) {
      signal.throwIfAborted();
      failed = error;
    }
  throw failed;
}

/** Asks the server at an address. The name is not resolved again, or it could be another address. */
function requested(url: URL, name: string, address: string, signal: AbortSignal): Promise<IncomingMessage> {
  const secure = url.protocol === 'https:';
  const options = {
    host: address,
    port: url.port === '' ? (secure ? 443 : 80) : url.port,
    path: url.pathname + url.search,
    headers: { host: url.host, accept: 'image/png, image/jpeg', 'user-agent': 'quantlet' },
    agent: false as const,
    signal,
    ...(secure && !isIP(name) ? { servername: name } : {}),
  };
  return new Promise((resolve, reject) => {
    const request = (secure ? https : http).get(options, resolve);
    request.on('error', reject);
  });
}

async function bytesOf(response: IncomingMessage, text: string, maxBytes: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  const check = (bytes: number): void => {
    if (bytes <= maxBytes) return;
    response.destroy();
    throw unreadImage(`The image at ${shown(text)} has more than ${maxBytes} bytes; expected a smaller one.`);
  };
  check(Number(response.headers['content-length'] ?? 0));
  for await (const piece of response as AsyncIterable<Uint8Array>) {
    check((size += piece.byteLength));
    pieces.push(piece);
  }
  if (!response.complete) throw new Error('the answer ended early');
  return Buffer.concat(pieces);
}
