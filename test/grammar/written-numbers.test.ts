/**
 * Numbers of a JSON schema are exact in every digit, whatever form the schema has: JSON text, a
 * request, integers of type bigint.
 */
import { describe, expect, it } from 'vitest';
import { parseExactJson } from '../../src/chat/exact-json.ts';
import { jsonOf } from '../../src/cli/generate-options.ts';
import { createGrammar } from '../../src/grammar/grammar.ts';
import { jsonSchemaToGrammar, type JsonSchema } from '../../src/grammar/json-schema.ts';
import { createHandler } from '../../src/server/handler.ts';
import { scriptedBackend } from '../server/backend.ts';
import { byteVocabulary } from './helpers.ts';

const utf8 = new TextEncoder();

function reader(schema: JsonSchema): (text: string) => boolean {
  const grammar = createGrammar(jsonSchemaToGrammar(schema), byteVocabulary([]));
  return (text) => {
    grammar.reset();
    for (const byte of utf8.encode(text)) {
      if (!grammar.allows(byte)) return false;
      grammar.accept(byte);
    }
    return grammar.isComplete();
  };
}

const long = '0.1234567890123456789012345678901234567890';

describe('written in JSON', () => {
  it.each<[schema: string, yes: string[], no: string[]]>([
    ['{"const":9007199254740993}', ['9007199254740993'], ['9007199254740992', '9007199254740994']],
    ['{"const":-1234567890123456789}', ['-1234567890123456789'], ['-1234567890123456800']],
    [`{"const":${long}}`, [long], ['0.12345678901234568']],
    ['{"const":{"a":[9007199254740993,1.0]}}', ['{"a":[9007199254740993,1.0]}'], ['{"a":[9007199254740992,1]}']],
    ['{"const":1e400}', ['1e400'], ['null']],
    [
      '{"enum":[9007199254740993,9007199254740995,1.50,"a"]}',
      ['9007199254740993', '9007199254740995', '1.50', '"a"'],
      ['9007199254740996'],
    ],
    ['{"enum":[9007199254740992,9007199254740993],"const":9007199254740993}', ['9007199254740993'], ['9007199254740992']],
    [
      '{"allOf":[{"enum":[9007199254740992,9007199254740993,1]},{"enum":[1.0,9007199254740993]}]}',
      ['9007199254740993', '1'],
      ['9007199254740992'],
    ],
    ['{"enum":[9007199254740992,9007199254740993],"minimum":9007199254740993}', ['9007199254740993'], ['9007199254740992']],
    ['{"enum":[9007199254740992,9007199254740993],"exclusiveMaximum":9007199254740993}', ['9007199254740992'], ['9007199254740993']],
    ['{"type":"integer","enum":[1.0,1.5,9007199254740993,9007199254740993.5]}', ['1.0', '9007199254740993'], ['1.5', '9007199254740993.5']],
    ['{"type":"integer","minimum":9007199254740993,"maximum":9007199254740993}', ['9007199254740993'], ['9007199254740992']],
    ['{"type":"integer","exclusiveMinimum":9007199254740992,"maximum":9007199254740994}', ['9007199254740993'], ['9007199254740992']],
    ['{"type":"integer","minimum":-9007199254740995,"exclusiveMaximum":-9007199254740993}', ['-9007199254740994'], ['-9007199254740993']],
    ['{"type":"integer","minimum":9007199254740992.5,"maximum":9223372036854775807}', ['9223372036854775807'], ['9007199254740992']],
    ['{"type":"integer","maximum":9223372036854775807}', ['9223372036854775807'], ['9223372036854775808']],
    ['{"type":"number","minimum":9007199254740993}', ['9007199254740993', '9007199254740994'], ['9007199254740992']],
    ['{"type":"number","maximum":0.12345678901234567891}', ['0.12345678901234567891'], ['0.12345678901234567892']],
    ['{"type":"number","minimum":0.1000000000000000055511151231257827}', ['0.2'], ['0.1', '0.10000000000000000555']],
    ['{"type":"number","minimum":1.0e1,"maximum":20.0}', ['10', '20', '15.5'], ['9.9', '20.1']],
    ['{"type":"number","minimum":1,"exclusiveMinimum":true}', ['1.5'], ['1', '0']],
    ['{"type":"number","minimum":1e-999999999,"maximum":1}', ['0.1', '1'], ['0']],
    ['{"allOf":[{"type":"integer","minimum":9007199254740992},{"minimum":9007199254740993}]}', ['9007199254740993'], ['9007199254740992']],
    ['{"type":"array","items":{"type":"null"},"minItems":2.0,"maxItems":2e0}', ['[null,null]'], ['[null]']],
  ])('%s', (text, yes, no) => {
    const accepts = reader(parseExactJson(text) as JsonSchema);
    for (const one of yes) expect(accepts(one), one).toBe(true);
    for (const one of no) expect(accepts(one), one).toBe(false);
  });

  it.each<[schema: string, message: RegExp]>([
    [`{"const":0.${'1'.repeat(500)}}`, /a number has 502 characters; expected at most 400/],
    ['{"type":"array","minItems":9007199254740993}', /#\/minItems: found 9007199254740993; expected an integer/],
    ['{"items":1.0}', /#\/items: found 1\.0; expected true, false or an object/],
    ['{"type":"integer","minimum":9007199254740993.5,"maximum":9007199254740993.9}', /no value satisfies/],
  ])('%s is refused', (text, message) => {
    expect(() => jsonSchemaToGrammar(parseExactJson(text) as JsonSchema)).toThrow(message);
  });
});

it('integers of type bigint hold in the same way', () => {
  const accepts = reader({ type: 'integer', minimum: 2n ** 53n + 1n, maximum: 2n ** 64n });
  expect(['9007199254740993', '18446744073709551616', '9007199254740992', '18446744073709551617'].map(accepts)).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(reader({ enum: [{ id: 2n ** 60n }] })('{"id":1152921504606846976}')).toBe(true);
});

describe('in a request', () => {
  const schema = '{"type":"object","properties":{"id":{"const":9007199254740993}},"required":["id"]}';
  const referring = '{"$ref":"#/$defs/x","$defs":{"x":{"type":"object","properties":{"id":{"enum":[9007199254740993]}}}}}';
  const messages = '[{"role":"user","content":"x"}]';

  it.each<[path: string, body: string]>([
    [
      '/v1/chat/completions',
      `{"messages":${messages},"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${schema}}}}`,
    ],
    ['/v1/chat/completions', `{"messages":${messages},"response_format":{"type":"json_object","schema":${schema}}}`],
    ['/v1/chat/completions', `{"messages":${messages},"json_schema":${schema}}`],
    [
      '/v1/chat/completions',
      `{"messages":${messages},"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]}`,
    ],
    [
      '/v1/chat/completions',
      `{"messages":${messages},"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":${referring}}}]}`,
    ],
    ['/v1/completions', `{"prompt":"x","json_schema":${schema}}`],
    ['/completion', `{"prompt":"x","json_schema":${schema}}`],
    ['/v1/responses', `{"input":"x","text":{"format":{"type":"json_schema","name":"a","schema":${schema}}}}`],
    ['/v1/responses', `{"input":"x","tool_choice":"required","tools":[{"type":"function","name":"f","parameters":${schema}}]}`],
    [
      '/v1/messages',
      `{"max_tokens":9,"messages":${messages},"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":${schema}}]}`,
    ],
    ['/v1/messages', `{"max_tokens":9,"messages":${messages},"output_config":{"format":{"type":"json_schema","schema":${schema}}}}`],
  ])('%s %s', async (path, body) => {
    const backend = scriptedBackend(() => '{}');
    const headers = { 'content-type': 'application/json' };
    const { status } = await createHandler(backend)(new Request(`http://server${path}`, { method: 'POST', headers, body }));
    expect(status).toBe(200);
    const { responseFormat, calls } = backend.seen.options[0];
    const { schema } = calls?.tools[0] ?? (responseFormat as { readonly schema: object });
    const grammar = jsonSchemaToGrammar(schema as JsonSchema);
    expect(grammar).toContain('"9007199254740993"');
    expect(grammar).not.toContain('9007199254740992');
  });

  it('on the command line', () => {
    expect(reader(jsonOf('--json-schema', '{"const":9007199254740993}') as JsonSchema)('9007199254740993')).toBe(true);
  });
});
