/** Images that a server downloads for its clients: hosts of a list, public addresses, and limits. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { downloadImage, hostsOf, isPublicAddress, type Network } from '../../src/cli/media-url.ts';
import { mediaOf } from '../../src/cli/serve-media.ts';

const servers: Server[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function listen(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const signal = new AbortController().signal;
const PICTURE = Buffer.from('a picture');
/** A network in which every name is this machine, which is public. */
const here: Partial<Network> = { resolve: () => Promise.resolve(['127.0.0.1']), isPublic: () => true };
const get = (list: string, url: string, network: Partial<Network> = here, maxBytes = 1000) =>
  downloadImage(hostsOf([list]), url, { maxBytes, signal }, network);
const refusal = (message: RegExp) =>
  expect.objectContaining({ status: 400, code: 'invalid_image_url', message: expect.stringMatching(message) as string }) as Error;

describe('addresses', () => {
  it.each(
    '127.0.0.1 127.8.9.1 0.0.0.0 10.1.2.3 100.64.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.168.1.1 192.0.0.8 192.0.2.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:7f00:1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 100::1 fc00::1 fd12::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 2001::1 2001:db8::1 2002:7f00:1::1 3fff::1 5f00::1 x 1.2.3'.split(
      ' ',
    ),
  )('%s is not public', (address) => expect(isPublicAddress(address)).toBe(false));

  it.each([
    '1.1.1.1',
    '8.8.8.8',
    '172.15.255.255',
    '172.32.0.1',
    '100.63.255.255',
    '198.20.0.1',
    '2606:4700::1111',
    '2a00:1450::1',
    '2001:4860:4860::8888',
  ])('%s is public', (address) => expect(isPublicAddress(address)).toBe(true));
});

describe('hosts', () => {
  it.each<[list: string, url: string, allowed: boolean]>([
    ['example.com', 'http://example.com/a.png', true],
    ['Example.COM', 'https://EXAMPLE.com./a.png', true],
    ['example.com', 'http://example.com:8080/a.png', false],
    ['example.com:8080', 'http://example.com:8080/a.png', true],
    ['example.com', 'http://www.example.com/a.png', false],
    ['example.com', 'http://example.com.evil.org/a.png', false],
    ['example.com', 'http://evilexample.com/a.png', false],
    ['example.com', 'http://example.com@evil.org/a.png', false],
    ['example.com', 'http://user:word@example.com/a.png', false],
    ['example.com', 'http://example.com%2eevil.org/a.png', false],
    ['*.example.com', 'http://www.example.com/a.png', true],
    ['*.example.com', 'http://a.b.example.com/a.png', true],
    ['*.example.com', 'http://example.com/a.png', false],
    ['*.example.com', 'http://evilexample.com/a.png', false],
    ['https://example.com', 'https://example.com/a.png', true],
    ['https://example.com', 'http://example.com/a.png', false],
    ['a.example, b.example', 'http://b.example/a.png', true],
    ['*', 'http://any.example/a.png', true],
    ['*', 'http://any.example:9/a.png', false],
    ['bücher.example', 'http://xn--bcher-kva.example/a.png', true],
    ['*', 'ftp://any.example/a.png', false],
    ['*', 'file:///etc/passwd', false],
    ['*', 'http://', false],
  ])('%s: %s is allowed: %s', async (list, url, allowed) => {
    const asked: string[] = [];
    const network = { resolve: (name: string) => (asked.push(name), Promise.resolve([])) };
    await expect(get(list, url, network)).rejects.toThrow(refusal(allowed ? /no public address/ : /may not be downloaded/));
    expect(asked).toHaveLength(allowed ? 1 : 0);
  });

  it.each(['example.com/path', 'ftp://example.com', 'a b', '*.', 'example.com:x', 'user@example.com', 'http://', '*.*'])(
    '%s is no host',
    (text) => {
      expect(() => hostsOf([text])).toThrow(expect.objectContaining({ code: 'ERR_USAGE' }) as Error);
    },
  );
});

describe('private addresses are never asked', () => {
  // URL writes them all as 127.0.0.1, or as addresses of IPv6.
  it.each([
    '127.0.0.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '127.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '169.254.169.254',
    '[fd00::1]',
  ])('%s', async (host) => {
    await expect(get('*', `http://${host}/a.png`, {})).rejects.toThrow(refusal(/no public address/));
  });

  it('not even if the list names them', async () => {
    const port = await listen((_, response) => response.end(PICTURE));
    await expect(get(`127.0.0.1:${port}`, `http://127.0.0.1:${port}/`, {})).rejects.toThrow(refusal(/no public address/));
    await expect(get(`localhost:${port}`, `http://localhost:${port}/`, {})).rejects.toThrow(refusal(/no public address/));
  });

  it('a name with public and private addresses', async () => {
    const resolve = () => Promise.resolve(['1.1.1.1', '10.0.0.1']);
    await expect(get('*', 'http://mixed.example/', { resolve })).rejects.toThrow(refusal(/no public address/));
  });

  it('a name is resolved once, and the address that was checked is asked', async () => {
    let asked = '';
    const port = await listen(({ headers }, response) => {
      asked = headers.host!;
      response.end(PICTURE);
    });
    const addresses = ['127.0.0.1', '127.0.0.2'];
    const resolve = () => Promise.resolve([addresses.shift()!]);
    const bytes = await get(`a.example:${port}`, `http://a.example:${port}/`, { resolve, isPublic: (address) => address === '127.0.0.1' });
    expect([Buffer.from(bytes), asked, addresses]).toEqual([PICTURE, `a.example:${port}`, ['127.0.0.2']]);
  });
});

describe('redirections', () => {
  it('are followed to hosts of the list', async () => {
    const port = await listen(({ url }, response) => {
      if (url === '/a') response.writeHead(302, { location: '/b' }).end();
      else response.end(PICTURE);
    });
    expect(Buffer.from(await get(`a.example:${port}`, `http://a.example:${port}/a`))).toEqual(PICTURE);
  });

  it.each(['http://b.example/', 'http://127.0.0.1/', 'file:///etc/passwd', '//b.example/', 'http://a.example:1/'])(
    'to %s are refused',
    async (location) => {
      const port = await listen((_, response) => response.writeHead(301, { location }).end());
      await expect(get(`a.example:${port}`, `http://a.example:${port}/a`)).rejects.toThrow(refusal(/may not be downloaded/));
    },
  );

  it('to a name of the list with a private address are refused', async () => {
    const port = await listen((_, response) => response.writeHead(307, { location: 'http://b.example/' }).end());
    const network: Partial<Network> = {
      resolve: (name) => Promise.resolve([name === 'a.example' ? '127.0.0.1' : '10.0.0.1']),
      isPublic: (address) => address === '127.0.0.1',
    };
    await expect(get(`a.example:${port},b.example`, `http://a.example:${port}/a`, network)).rejects.toThrow(refusal(/no public address/));
  });

  it('without end are refused', async () => {
    const port = await listen((_, response) => response.writeHead(302, { location: '/' }).end());
    await expect(get(`a.example:${port}`, `http://a.example:${port}/`)).rejects.toThrow(refusal(/redirected more than 3 times/));
  });
});

describe('limits', () => {
  it.each<[string, RequestListener]>([
    ['a length that is too large', (_, response) => response.writeHead(200, { 'content-length': 2000 }).write('a')],
    ['more bytes than allowed', (_, response) => response.end(Buffer.alloc(2000))],
  ])('%s', async (_, listener) => {
    const port = await listen((request, response) => void listener(request, response));
    await expect(get(`a.example:${port}`, `http://a.example:${port}/`)).rejects.toThrow(refusal(/more than 1000 bytes/));
  });

  it.each<[string, RequestListener]>([
    ['an answer that never begins', () => undefined],
    ['an answer that never ends', (_, response) => void response.write('a')],
  ])('%s', async (_, listener) => {
    const port = await listen(listener);
    await expect(get(`a.example:${port}`, `http://a.example:${port}/`, { ...here, timeoutMs: 100 })).rejects.toThrow(
      refusal(/did not arrive in 0.1 s/),
    );
  });

  it.each<[string, RequestListener, RegExp]>([
    ['a status', (_, response) => response.writeHead(404).end(), /status 404/],
    [
      'an answer that is cut off',
      (_, response) => response.writeHead(200, { 'content-length': 50 }).write('a', () => response.destroy()),
      /cannot be downloaded/,
    ],
    ['no answer', ({ socket }) => socket.destroy(), /cannot be downloaded/],
  ])('%s', async (_, listener, message) => {
    const port = await listen((request, response) => void listener(request, response));
    await expect(get(`a.example:${port}`, `http://a.example:${port}/`)).rejects.toThrow(refusal(message));
  });

  it('the next address of a name is asked if one cannot be reached', async () => {
    const port = await listen((_, response) => response.end(PICTURE));
    const resolve = () => Promise.resolve(['127.0.0.9', '127.0.0.1']);
    expect(Buffer.from(await get(`a.example:${port}`, `http://a.example:${port}/`, { ...here, resolve }))).toEqual(PICTURE);
  });

  it('an abort of the client ends the download', async () => {
    const port = await listen(() => stop.abort(new Error('gone')));
    const stop = new AbortController();
    const hosts = hostsOf([`a.example:${port}`]);
    await expect(downloadImage(hosts, `http://a.example:${port}/`, { maxBytes: 9, signal: stop.signal }, here)).rejects.toThrow('gone');
  });
});

describe('--media-path', () => {
  async function media() {
    const folder = await mkdtemp(join(tmpdir(), 'quantlet-media-'));
    folders.push(folder);
    const inside = join(folder, 'inside');
    await mkdir(join(inside, 'deep'), { recursive: true });
    await writeFile(join(folder, 'secret.png'), 'secret');
    for (const name of ['a.png', 'deep/b c.png', '.hidden']) await writeFile(join(inside, name), name);
    const read = (await mediaOf({ mediaPath: inside }))!;
    return { folder, inside, read: (url: string, maxBytes = 1000) => read(url, { maxBytes, signal }) };
  }
  const text = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString();

  it('file:// has a path from the folder', async () => {
    const { read } = await media();
    expect(await Promise.all(['file://a.png', 'file:///a.png', 'FILE://deep/b c.png'].map(async (url) => text(await read(url))))).toEqual([
      'a.png',
      'a.png',
      'deep/b c.png',
    ]);
    expect(await read('http://example.com/a.png')).toBeUndefined();
    expect(await (await mediaOf({ mediaUrl: ['example.com'] }))!('file://a.png', { maxBytes: 9, signal })).toBeUndefined();
    expect(await mediaOf({})).toBeUndefined();
  });

  it.each([
    'file://../secret.png',
    'file://deep/../../secret.png',
    'file:///etc/passwd',
    'file://none.png',
    'file://deep',
    'file://',
    'file:a.png',
    'file://.hidden',
    'file://..%2fsecret.png',
    'file://deep\\..\\..\\secret.png',
    `file://${'a'.repeat(300)}`,
  ])('%s is refused', async (url) => {
    const { read } = await media();
    await expect(read(url)).rejects.toThrow(refusal(/There is no file/));
  });

  it('links out of the folder are refused', async () => {
    const { folder, inside, read } = await media();
    await symlink(join(folder, 'secret.png'), join(inside, 'link.png'));
    await expect(read('file://link.png')).rejects.toThrow(refusal(/There is no file/));
  });

  it('a file that is too large, and a file as the folder', async () => {
    const { inside, read } = await media();
    await expect(read('file://a.png', 2)).rejects.toThrow(refusal(/5 bytes; expected at most 2/));
    await expect(mediaOf({ mediaPath: join(inside, 'a.png') })).rejects.toThrow(expect.objectContaining({ code: 'ERR_USAGE' }) as Error);
    await expect(mediaOf({ mediaPath: join(inside, 'none') })).rejects.toThrow(expect.objectContaining({ code: 'ERR_SOURCE' }) as Error);
  });
});
