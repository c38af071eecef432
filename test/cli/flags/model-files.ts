/** Tests of the flags that name a model. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, vi } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import { startHub } from '../../hub/server.ts';
import { failure } from '../../support.ts';
import type { Args } from '../commands.ts';
import { BASE, folder, golden, seeing, work, without, type Effect } from './support.ts';

/** Tests which file a command reads: of a path, a URL or a repository of the hub. */
export const modelFiles = (c: Command, effect: Effect): unknown =>
  describe('which file', async () => {
    // A mixture of experts, so that inspect --experts has something to count.
    const mixture = readFileSync(golden('llama-moe.gguf'));
    const files = { 'a-Q4_K_M.gguf': mixture, 'b.gguf': mixture };
    const hub = await startHub(files);
    beforeAll(() => void vi.stubEnv('MODEL_ENDPOINT', hub.url));
    afterAll(() => void vi.unstubAllEnvs());
    let caches = 0;
    /** Requests that the hub received, with an empty cache. */
    const asked = (args: Args): Promise<string[]> => {
      vi.stubEnv('QUANTLET_CACHE', join(folder, `cache-${caches++}`));
      return again(args);
    };
    const again = async (args: Args): Promise<string[]> => {
      const before = hub.log.length;
      await work(c, args, without(BASE[c.name], '-m'));
      return hub.log.slice(before);
    };

    effect([c.flags.includes('models') ? 'models' : 'model'], 'a path; a URL is downloaded', async () => {
      expect((await failure(() => work(c, ['-m', join(folder, 'none.gguf')]))).code).toBe('ERR_SOURCE');
      expect(await asked(['-mu', `${hub.url}/org/repo/resolve/main/b.gguf`])).toContain('resolve b.gguf');
    });
    effect(['hf', 'hfFile', 'hfToken', 'offline'], 'the hub is asked for this file with this token, or not at all', async () => {
      expect(await asked(['-hf', 'org/repo'])).toContain('resolve a-Q4_K_M.gguf');
      expect(await again(['-hf', 'org/repo'])).toEqual(['list']);
      expect(await again(['-hf', 'org/repo', '--offline'])).toEqual([]);
      expect(await asked(['-hf', 'org/repo', '-hff', 'b.gguf'])).toContain('resolve b.gguf');
      const tokens: (string | undefined)[] = [];
      hub.refuse = (token) => (tokens.push(token), undefined);
      await asked(['-hf', 'org/repo', '-hft', 'a-token']);
      hub.refuse = () => undefined;
      expect(tokens.length).toBeGreaterThan(0);
      expect(new Set(tokens)).toEqual(new Set(['a-token']));
      expect((await failure(() => asked(['-hf', 'org/repo', '--offline']))).code).toBe('ERR_DOWNLOAD');
    });
    if (c.flags.includes('mmprojAuto'))
      effect(['mmprojAuto'], 'the projector of the repository, unless there is another one or none is wanted', async () => {
        hub.files.set('c/c.gguf', readFileSync(seeing.model));
        hub.files.set('mmproj-c-F16.gguf', readFileSync(seeing.mmproj));
        const projectors = async (...args: Args): Promise<string[]> =>
          (await asked(['-hf', 'org/repo', '-hff', 'c/c.gguf', ...args])).filter((line) => line.startsWith('resolve mmproj'));
        const found = ['resolve mmproj-c-F16.gguf'];
        expect(await projectors('--mmproj-auto')).toEqual(found);
        expect(await projectors()).toEqual(c.name === 'run' ? [] : found);
        for (const args of [['--no-mmproj'], ['--no-mmproj-auto'], ['--mmproj-auto', '--mmproj', seeing.mmproj]])
          expect(await projectors(...args)).toEqual([]);
        expect(await projectors('--no-mmproj', '--mmproj-url', `${hub.url}/org/repo/resolve/main/mmproj-c-F16.gguf`)).toEqual(found);
        hub.files.delete('c/c.gguf');
        hub.files.delete('mmproj-c-F16.gguf');
      });
    if (c.flags.includes('draftHf'))
      effect(['draftHf'], 'the hub is asked for a draft model too', async () => {
        expect(await asked(['-hf', 'org/repo', '-hfd', 'org/repo', '-md', 'b.gguf'])).toEqual(
          expect.arrayContaining(['resolve a-Q4_K_M.gguf', 'resolve b.gguf']),
        );
      });
  });
