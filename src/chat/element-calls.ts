/** Reader of calls whose arguments are elements of their own names, at every level (MiniMax M3). */
import { typesOf, within, type Subschema, type ValueKind } from './argument-types.ts';
import { BareValue } from './bare-value.ts';
import type { CallReader, CallText, Reading } from './call-text.ts';
import { argumentsOf, readText, type After } from './xml-calls.ts';

/** Maximum nesting of elements; each is a list or an object in an argument. */
const MAX_ELEMENTS = 200;

/** Notation of {@link elementReader}: `mark` precedes every tag, so text may contain tags. */
interface Elements {
  readonly mark: string;
  readonly write: (json: string) => void;
}

/**
 * Reader for MiniMax M3: each argument is an element of its name, and lists have `<item>` elements.
 * @param end tag of the outer element
 */
export function elementReader(mark: string, end: string): CallReader {
  return function* (text, sink) {
    for (let calls = 0; ; calls++) {
      yield* text.blanks();
      if (calls > 0 && (yield* text.close(mark + end))) return true;
      if (!(yield* text.eat(`${mark}<invoke name="`))) return false;
      const name = yield* text.until('">');
      if (name === undefined || !/^[^"<>]+$/.test(name)) return false;
      sink.open(name);
      const elements = { mark, write: (json: string) => sink.write(json) };
      if (!(yield* readMembers(text, elements, argumentsOf(sink.tool(name)), 'invoke', 0))) return false;
      sink.close();
    }
  };
}

/** Reads elements as the members of an object, up to the end of the element around them. */
function* readMembers(text: CallText, elements: Elements, schema: Subschema, around: string, depth: number): Reading<boolean> {
  const { mark, write } = elements;
  for (let n = 0; ; n++) {
    yield* text.blanks();
    if (yield* text.eat(`${mark}</${around}>`)) {
      write(n === 0 ? '{}' : '}');
      return true;
    }
    const tag = (yield* text.eat(`${mark}<`)) ? yield* text.until('>') : undefined;
    if (tag === undefined || !/^[^<>"/]+$/.test(tag)) return false;
    write(`${n === 0 ? '{' : ', '}${JSON.stringify(tag)}: `);
    if (!(yield* readElement(text, elements, within(schema, tag), tag, depth + 1))) return false;
  }
}

function* readItems(text: CallText, elements: Elements, schema: Subschema, around: string, depth: number): Reading<boolean> {
  const { mark, write } = elements;
  for (let n = 0; ; n++) {
    yield* text.blanks();
    if (yield* text.eat(`${mark}</${around}>`)) {
      write(n === 0 ? '[]' : ']');
      return true;
    }
    if (!(yield* text.eat(`${mark}<item>`))) return false;
    write(n === 0 ? '[' : ', ');
    if (!(yield* readElement(text, elements, within(schema, n), 'item', depth + 1))) return false;
  }
}

/** Reads the content of an element and its end. */
function* readElement(text: CallText, elements: Elements, schema: Subschema, tag: string, depth: number): Reading<boolean> {
  const { mark, write } = elements;
  if (depth > MAX_ELEMENTS) return false;
  const { kinds } = typesOf(schema);
  const close = `${mark}</${tag}>`;
  const may = (kind: ValueKind): boolean => kinds.has(kind);
  const blanks = yield* text.afterBlanks();
  const opens = (yield* text.has(`${mark}<`, blanks)) && !(yield* text.has(`${mark}</`, blanks));
  const isEmpty = (yield* text.has(close, blanks)) && !may('string');
  if ((opens && (may('object') || may('array'))) || (isEmpty && (may('object') || may('array')))) {
    const isList = may('array') && (!may('object') || (yield* text.has(`${mark}<item>`, blanks)));
    return yield* (isList ? readItems : readMembers)(text, elements, schema, tag, depth);
  }
  const value = new BareValue(schema, undefined, { trimLines: false, python: true }, write);
  const after = function* (offset: number): Reading<After> {
    return (yield* text.has(`${mark}<`, yield* text.afterBlanks(offset))) || text.ended ? 'call' : 'text';
  };
  return yield* readText(text, close, '', after, value);
}
