/** Tests of the flags of serve that are the defaults of requests. */
import { expect } from 'vitest';
import { tokenize } from '../../../src/cli/tokenize.ts';
import { writeTo } from '../../support.ts';
import type { Args } from '../commands.ts';
import { post, say } from './serve-requests.ts';
import { folder, template, served, json, type Effect } from './support.ts';

export function serveAnswers(effect: Effect): void {
  effect(['parseSpecial'], 'control tokens in messages', async () => {
    const tokens = (url: string): Promise<number> =>
      post(url, '/v1/chat/completions', say('</s></s></s>')).then(
        async (r) => ((await r.json()) as { usage: { prompt_tokens: number } }).usage.prompt_tokens,
      );
    expect(await served(['--parse-special'], tokens)).toBeLessThan(await served([], tokens));
  });
  effect(['predict'], 'so many tokens, unless a request says otherwise', () =>
    served(['-n', 3], async (url) => {
      const count = async (more: object): Promise<number> =>
        ((await (await post(url, '/completion', { prompt: 'a', ignore_eos: true, ...more })).json()) as { tokens_predicted: number })
          .tokens_predicted;
      expect([await count({}), await count({ n_predict: 5 })]).toEqual([3, 5]);
    }),
  );
  effect(
    ['samplers', 'samplerSeq', 'ignoreEos', 'stop', 'grammar', 'grammarFile', 'jsonSchema', 'jsonSchemaFile'],
    'how text is made, unless a request says otherwise',
    async () => {
      type Answer = { content: string; tokens: number[]; stop_type: string };
      const complete = async (args: Args, more: object = {}): Promise<Answer> =>
        served(args, async (url) => {
          const request = { prompt: 'the cat', n_predict: 12, seed: 7, return_tokens: true, ...more };
          return (await (await post(url, '/completion', request)).json()) as Answer;
        });
      const flat = ['--temp', 3, '--min-p', 0, '--top-p', 1];
      const few = await complete([...flat, '--top-k', 1, '--samplers', 'top_k']);
      expect(few.tokens).toEqual((await complete([...flat, '--top-k', 1, '--sampler-seq', 'k'])).tokens);
      expect(few.tokens).not.toEqual((await complete([...flat, '--top-k', 1, '--samplers', 'temperature'])).tokens);
      for (const samplers of ['k', ['top_k']])
        expect((await complete([...flat, '--top-k', 1, '--samplers', 'temp'], { samplers })).tokens).toEqual(few.tokens);
      const gbnf = 'root ::= "ab" [c-e]';
      for (const given of [
        ['--grammar', gbnf],
        ['--grammar-file', writeTo(folder, 'serve.gbnf', gbnf)],
      ])
        expect((await complete(given)).content.trim()).toMatch(/^ab[cde]$/);
      for (const given of [
        ['-j', '{"const": [2]}'],
        ['-jf', writeTo(folder, 'serve.json', '{"const": [2]}')],
      ]) {
        expect(JSON.parse((await complete(given)).content)).toEqual([2]);
        expect(JSON.parse((await complete(given, { json_schema: { const: [3] } })).content)).toEqual([3]);
        expect((await complete(given, { grammar: gbnf })).content.trim()).toMatch(/^ab[cde]$/);
      }
      const word = few.content.slice(2, 4);
      expect(await complete([...flat, '--top-k', 1, '-r', word])).toMatchObject({
        stop_type: 'word',
        content: few.content.slice(0, few.content.indexOf(word)),
      });
      expect((await complete([...flat, '--top-k', 1, '-r', word], { stop: [] })).tokens).toEqual(few.tokens);
      const eos = ['-l', '2+1000', '--temp', 0];
      const ends = [
        await complete(eos),
        await complete([...eos, '--ignore-eos']),
        await complete([...eos, '--ignore-eos'], { ignore_eos: false }),
      ];
      expect(ends.map(({ tokens }) => tokens.length)).toEqual([0, 12, 0]);
    },
  );
  effect(
    ['chatTemplateKwargs', 'reasoning', 'reasoningEffort', 'reasoningBudget', 'reasoningBudgetMessage', 'reasoningFormat'],
    'what conversations are told, unless a request says otherwise',
    async () => {
      const show = template('').replace('{% for', '{{ enable_thinking }},{{ reasoning_effort }},{{ extra }}{% for');
      const shown = (args: Args, more: object = {}): Promise<string> =>
        served(['--chat-template', show, ...args], async (url) => {
          const request = { messages: [{ role: 'user', content: '' }], ...more };
          return ((await (await post(url, '/apply-template', request)).json()) as { prompt: string }).prompt;
        });
      expect(await shown(['--chat-template-kwargs', '{"extra": 5}', '-rea', 'off', '--reasoning-effort', 'low'])).toMatch(/^false,low,5/i);
      expect(await shown(['-rea', 'off'], { chat_template_kwargs: { enable_thinking: 'yes' } })).toMatch(/^yes,,/);
      expect(await shown(['--reasoning-budget', 0])).toMatch(/^false,,/i);
      expect(await shown(['--reasoning-budget', 0], { reasoning_budget_tokens: 5 })).toMatch(/^,,/);

      const opened = ['--chat-template', '{% for m in messages %}{{ m.content }}{% endfor %}<think>{# </think> #}'];
      type Answer = { choices: [{ message: { content: string; reasoning_content?: string } }] };
      const said = (args: Args, more: object = {}): Promise<Answer['choices'][0]['message']> =>
        served([...opened, '--temp', 0, ...args], async (url) => {
          const request = { messages: [{ role: 'user', content: 'the cat' }], max_tokens: 30, ignore_eos: true, ...more };
          return ((await (await post(url, '/v1/chat/completions', request)).json()) as Answer).choices[0].message;
        });
      const budget = ['--reasoning-budget', 4, '--reasoning-budget-message', ' ... enough.'];
      const cut = await said(budget);
      expect(cut.reasoning_content).toMatch(/ \.\.\. enough\.$/);
      expect(cut.content).not.toBe('');
      expect((await said(budget, { reasoning_budget_message: '' })).reasoning_content).not.toMatch(/enough/);
      expect((await said([...budget, '--reasoning-format', 'none'])).content).toMatch(/ \.\.\. enough\. ?<\/think>/);
      expect((await said([...budget, '--reasoning-format', 'none'], { reasoning_format: 'auto' })).content).toBe(cut.content);
    },
  );
  effect(['prefillAssistant'], "an assistant's message at the end is how the answer begins", async () => {
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'once' },
    ];
    const prompt = (args: Args): Promise<string> =>
      served(
        [...args, '--chat-template', 'chatml'],
        async (url) => ((await (await post(url, '/apply-template', { messages })).json()) as { prompt: string }).prompt,
      );
    for (const args of [[], ['--prefill-assistant']]) expect(await prompt(args)).toMatch(/once$/);
    expect(await prompt(['--no-prefill-assistant'])).not.toMatch(/once$/);
  });
  effect(['contextShift', 'keep'], 'where the context is full an answer goes on', async () => {
    type Answer = { content: string; tokens_predicted: number; truncated: boolean };
    const answer = (args: Args, more: object = {}): Promise<Answer> =>
      served(['-c', 32, ...args], async (url) => {
        const request = { prompt: 'the cat', n_predict: 60, temperature: 0, ignore_eos: true, ...more };
        return (await (await post(url, '/completion', request)).json()) as Answer;
      });
    expect((await answer([])).tokens_predicted).toBeLessThan(32);
    const shifted = await answer(['--context-shift']);
    expect(shifted).toMatchObject({ tokens_predicted: 60, truncated: true });
    const kept = await answer(['--context-shift', '--keep', -1]);
    expect(kept.content).not.toBe(shifted.content);
    expect((await answer(['--context-shift'], { n_keep: -1 })).content).toBe(kept.content);
    expect((await answer(['--context-shift', '--no-context-shift'])).tokens_predicted).toBeLessThan(32);
  });
  effect(['special'], 'control tokens are shown', async () => {
    const [, eos] = await json<number[]>(tokenize, '-p', '</s>');
    const said = (args: Args): Promise<string> =>
      served(args, async (url) => {
        const request = { prompt: 'the cat', n_predict: 3, logit_bias: [[eos - 1, 1000]] };
        return ((await (await post(url, '/completion', request)).json()) as { content: string }).content;
      });
    expect([await said([]), await said(['-sp'])]).toEqual(['', '<s><s><s>']);
  });
  effect(['embdNormalize'], 'how long vectors are, unless a request says otherwise', async () => {
    const vector = (args: Args, more: object = {}): Promise<number[]> =>
      served(['--embeddings', ...args], async (url) => {
        const { data } = (await (await post(url, '/v1/embeddings', { input: 'the cat', ...more })).json()) as {
          data: { embedding: number[] }[];
        };
        return data[0].embedding;
      });
    const [unit, raw, taxi] = [await vector([]), await vector(['--embd-normalize', -1]), await vector(['--embd-normalize', 1])];
    const length = Math.hypot(...raw);
    unit.forEach((x, i) => expect(raw[i] / length).toBeCloseTo(x, 5));
    expect(length).not.toBeCloseTo(1, 1);
    expect(taxi.reduce((sum, x) => sum + Math.abs(x), 0)).toBeCloseTo(1, 5);
    expect(await vector(['--embd-normalize', 1], { embd_normalize: -1 })).toEqual(raw);
    expect(await vector([], { embd_normalize: 1, dimensions: 4 })).toHaveLength(4);
  });
  effect(['chatTemplate', 'chatTemplateFile'], 'how messages are written', async () => {
    const written = (url: string): Promise<string> =>
      post(url, '/apply-template', say('x')).then(async (r) => ((await r.json()) as { prompt: string }).prompt);
    expect(await served(['--chat-template', template('#')], written)).toContain('#ux');
    expect(await served(['--chat-template-file', writeTo(folder, 'b.jinja', template('%'))], written)).toContain('%ux');
  });
}
