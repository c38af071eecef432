/** The flags of quantlet chat. */
import { describe, expect, vi } from 'vitest';
import { chat } from '../../../src/cli/chat.ts';
import { at, failure, llamaModel, runCli, writeTo } from '../../support.ts';
import { bytesOf } from '../../vision/golden.ts';
import { invoke, type Args } from '../commands.ts';
import { generatedText } from './generated-text.ts';
import { loadOptions } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { samplerFlags } from './sampler-flags.ts';
import { BASE, folder, seeing, template, without, json, report, describeFlags } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(chat, (effect) => {
  loadOptions(chat, effect);
  modelFiles(chat, effect);
  samplerFlags(chat, effect);
  generatedText(chat, effect);

  effect(['image'], 'images before the text of the message', async () => {
    const picture = writeTo(folder, 'shapes.png', bytesOf('shapes.png'));
    const prompt = async (...args: Args): Promise<number> => {
      const { stdout } = await invoke(chat, [...without(BASE.chat, '-m'), '-m', seeing.model, '--mmproj', seeing.mmproj, ...args]);
      return (JSON.parse(stdout) as { timings: { prompt_n: number } }).timings.prompt_n;
    };
    expect(await prompt('--image', picture)).toBeGreaterThan((await prompt()) + 28);
  });

  /** Ids of a greedy answer. Equal ids mean equal prompts. */
  const answer = async (...args: Args): Promise<number[]> => (await report(chat, '-n', 8, '--temp', 0, ...args)).ids;
  effect(
    ['message', 'file', 'escape', 'system', 'systemFile', 'chatTemplate', 'chatTemplateFile'],
    'what is said, and how it is written',
    async () => {
      const plain = await answer();
      const other = await answer('-p', 'a dog');
      expect(other).not.toEqual(plain);
      expect(await answer('-f', writeTo(folder, 'message.txt', 'a dog\n'))).toEqual(other);
      expect(await answer('-p', 'a\\ndog')).toEqual(await answer('-p', 'a\ndog'));
      expect(await answer('-p', 'a\\ndog', '--no-escape')).not.toEqual(await answer('-p', 'a\ndog'));
      const kind = await answer('-sys', 'Be kind.');
      expect(kind).not.toEqual(plain);
      expect(await answer('-sysf', writeTo(folder, 'kind.txt', 'Be kind.\n'))).toEqual(kind);
      expect(await answer('--chat-template', 'llama3')).not.toEqual(plain);
      const marked = await answer('--chat-template', template('#'));
      expect(marked).not.toEqual(plain);
      expect(await answer('--chat-template-file', writeTo(folder, 'a.jinja', template('#')))).toEqual(marked);
    },
  );
  describe('reasoning, turns and speeds', () => {
    const show = template('').replace('{% for', '{{ enable_thinking }}{{ reasoning_effort }}{{ extra }}{% for');
    const answer = async (...args: Args): Promise<number[]> =>
      (await report(chat, '-n', 8, '--temp', 0, '--chat-template', show, ...args)).ids;
    effect(['chatTemplateKwargs', 'reasoning', 'reasoningBudget', 'reasoningEffort'], 'what the template is told', async () => {
      const off = await answer('--chat-template-kwargs', '{"enable_thinking": false}');
      expect(off).not.toEqual(await answer());
      expect(await answer('-rea', 'off')).toEqual(off);
      expect(await answer('--reasoning-budget', 0)).toEqual(off);
      expect(await answer('-rea', 'auto', '--reasoning-budget', -1)).toEqual(await answer());
      expect(await answer('--reasoning-effort', 'low')).toEqual(await answer('--chat-template-kwargs', '{"reasoning_effort": "low"}'));
    });
    effect(['reasoningBudgetMessage'], 'what stands where reasoning is cut off', async () => {
      const opened = ['--chat-template', '{% for m in messages %}{{ m.content }}{% endfor %}<think>{# </think> #}'];
      const args = ['-n', 30, '--temp', 0, ...opened, '--reasoning-budget', 4];
      const { reasoning, ids } = await json<{ reasoning: string; ids: number[] }>(
        chat,
        ...args,
        '--reasoning-budget-message',
        ' ... enough.',
      );
      expect(reasoning).toMatch(/ \.\.\. enough\.$/);
      expect(ids.slice(0, 4)).toEqual((await answer(...args)).slice(0, 4));
    });
    effect(['reasoningFormat', 'color'], 'how reasoning is shown', async () => {
      const thinks: Args = ['--chat-template', '{% for m in messages %}{{ m.content }}{% endfor %}{# <think> </think> #}'];
      const args = [...without(BASE.chat, '--json', 1), ...thinks, '-n', 60, '--grammar', 'root ::= "<think>abc</think>\\n\\nxyz"'];
      const shown = async (...more: Args): Promise<string> => (await invoke(chat, [...args, ...more])).stdout;
      // A grammar disables the parser, which test/cli/show-answer.test.ts covers. This tests only
      // that the flags are read.
      expect(await shown('--reasoning-format', 'none', '--color', 'off')).toContain('<think>abc</think>');
      expect((await failure(() => shown('--reasoning-format', 'x'))).code).toBe('ERR_USAGE');
    });
    effect(
      ['conversation', 'interactive', 'singleTurn', 'multilineInput', 'showTimings', 'contextShift'],
      'how many turns, and what is said of them',
      async () => {
        const args = without(BASE.chat, '--json', 1);
        const typed = (more: Args, input: string) => runCli(['chat', ...without(args, '-p'), '--temp', 0, ...more], { input });
        const lines = async (more: Args, input: string): Promise<number> => (await typed(more, input)).stdout.trimEnd().split('\n').length;
        expect(await lines(['-cnv'], 'a\nb\nc\n')).toBe(3);
        expect(await lines(['-st'], 'a\nb\nc\n')).toBe(1);
        expect(await lines(['-mli'], 'a\nb\nc\n')).toBe(1);
        expect(await lines(['-p', 'x', '-i'], 'a\nb\n')).toBe(3);
        expect((await typed(['--show-timings'], 'a\n')).stderr).toMatch(/^prompt \d+ tokens, .* generation 3 tokens/);
        const long = `${'many words '.repeat(2)}\n`.repeat(5);
        expect((await typed(['-c', 64], long)).stderr).toMatch(/the context is full; the oldest/);
        expect((await typed(['-c', 64, '--no-context-shift'], long)).stderr).toContain('ERR_CONTEXT_FULL');
        expect((await failure(() => invoke(chat, [...args, '-no-cnv']))).message).toContain('quantlet run');
      },
    );
    effect(['mcpConfig', 'mcpJson', 'mcpAllow'], 'the MCP servers whose tools are offered, and which run unasked', async () => {
      const friendly = { command: process.execPath, args: [at('test/cli/mcp/friendly.mjs')] };
      const servers = JSON.stringify({ mcpServers: { a: friendly } });
      const call = '<tool_call>{"name": "a_echo", "arguments": {"text": "x"}}</tool_call>';
      const args = ['-m', llamaModel, '-p', 'x', '-n', 200, '-c', 4096, '--build', 'simd', '--no-warmup', '--chat-template', 'chatml'];
      const told = async (...more: Args): Promise<string> =>
        (await invoke(chat, [...args, '--grammar', `root ::= ${JSON.stringify(call)}`, ...more])).stderr;
      expect(await told('--mcp-servers-json', servers, '--mcp-allow', 'a')).toContain('| echo: x');
      expect(await told('--mcp-config', writeTo(folder, 'mcp.json', servers))).toContain('[refused:');
      expect(await told()).not.toContain('a/echo');
    });
    effect(['quiet', 'perf'], 'nothing but the answer is said anyway', async () => {
      const args = without(BASE.chat, '--json', 1);
      for (const flag of ['--log-disable', '--no-perf']) expect((await invoke(chat, [...args, flag])).stderr).toBe('');
    });
  });
});
