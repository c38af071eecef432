/**
 * A few seconds of the campaign that sends hostile and random requests to a server, with the
 * smaller requests of its list. `npm run fuzz -- --only requests` runs the whole campaign.
 */
import { describe, expect, it } from 'vitest';
import { newSeed, told } from '../fuzz/campaign.ts';
import { hostileRequests, textOf } from '../fuzz/hostile-requests.ts';
import { campaign, hostileServer, send, wrong } from '../fuzz/requests.ts';
import { AFTER_SIGTERM } from './server.ts';

/** Bodies up to this size are sent and answered in a few milliseconds. */
const SMALL = 20_000;

describe('hostile requests', () => {
  it('are two hundred and more, each of its own name', () => {
    expect(hostileRequests.length).toBeGreaterThanOrEqual(200);
    expect(new Set(hostileRequests.map(({ name }) => name)).size).toBe(hostileRequests.length);
  });

  it('of the list are answered, and the server serves on', async () => {
    const server = await hostileServer();
    for (const hostile of hostileRequests.filter(({ body }) => textOf(body ?? '').length <= SMALL)) {
      const fault = wrong(hostile, await send(server.url, hostile));
      expect(fault, hostile.name).toBeUndefined();
    }
    const served = await send(server.url, {
      name: 'a harmless one',
      path: '/v1/completions',
      body: ['{"prompt": "Once", "max_tokens": 3}'],
    });
    expect(served.status).toBe(200);
    expect(server.stderr().split('\n').slice(1).join('')).toBe('');
    server.kill('SIGTERM');
    expect(await server.exit).toBe(AFTER_SIGTERM);
  }, 300_000);

  it('made at random are answered too', async () => {
    // The delay of other clients has no meaning while other tests run.
    const result = await campaign({ build: 'simd', threads: 1, seed: newSeed(), seconds: 4, cases: Infinity }, Infinity);
    expect(told('requests', result)).toBe('');
    expect(result.cases).toBeGreaterThan(0);
  });
});
