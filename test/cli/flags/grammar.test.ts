/** The flags of quantlet grammar. */
import { expect } from 'vitest';
import { grammar } from '../../../src/cli/grammar.ts';
import { failure, writeTo } from '../../support.ts';
import { invoke } from '../commands.ts';
import { describeFlags, folder } from './support.ts';

describeFlags(grammar, (effect) => {
  const schema = writeTo(folder, 'list.json', '{"type":"array","items":{"type":"integer"},"uniqueItems":true}');
  const gbnf = writeTo(folder, 'word.gbnf', 'root ::= "a"+ "\\n" "b"');
  const good = writeTo(folder, 'good.json', '[1, 2]\n');
  const bad = writeTo(folder, 'bad.json', '[1, "x"]\n');
  effect(['schemaSource', 'grammarFile', 'checkText', 'strictSchema'], 'texts are checked, grammars are written', async () => {
    expect(await invoke(grammar, ['--json-schema', schema, '--check', good])).toMatchObject({
      code: 0,
      stdout: 'the text fits\n',
      stderr: 'quantlet: #: uniqueItems is held only in part\n',
    });
    expect(await invoke(grammar, ['-jf', schema, '--check', bad])).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^the text does not fit: line 1, column 5: found "\\"" after "\[1, "; expected one of .*9/),
    });
    expect((await failure(() => invoke(grammar, ['-j', schema, '--strict', '--check', good]))).message).toContain('#/uniqueItems');
    expect((await invoke(grammar, ['-j', '{"type":"integer"}'])).stdout).toContain('root ::=');
    expect((await invoke(grammar, ['--grammar-file', gbnf])).code).toBe(0);
    expect(await invoke(grammar, ['--grammar-file', gbnf, '--check', writeTo(folder, 'ab.txt', 'aa\nb\n')])).toMatchObject({ code: 0 });
    const end = await invoke(grammar, ['--grammar-file', gbnf, '--check', writeTo(folder, 'a.txt', 'aa\n')]);
    expect(end).toMatchObject({ code: 1, stdout: expect.stringContaining('the text ends after "aa"') });
    expect((await failure(() => invoke(grammar, []))).message).toMatch(/none of --json-schema and --grammar-file/);
  });
});
