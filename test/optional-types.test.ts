/**
 * Callers may pass `{ x: maybe }` without leaving out x. With exactOptionalPropertyTypes, the types
 * must then allow undefined explicitly.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, it } from 'vitest';
import { loadModel } from '../src/entry/node.ts';
import { GENERATE_OPTIONS } from '../src/generate/checked.ts';
import { CHAT_OPTIONS } from '../src/chat/options.ts';
import { root, shippedModel } from './support.ts';

const dist = fileURLToPath(new URL('dist/', root)).replaceAll('\\', '/');
const { exports } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { exports: Record<string, { types?: string }> };

/** Types that the package makes, and users only hand back. */
const OURS = /\/(?:type-traits|packed-format|chat\/chat-format|grammar\/calls\/notation|sample\/span-budget|sample\/begun-calls)\.d\.ts$/;

/** Optional properties of the package's parameters whose types do not allow undefined. */
function lacking(): string[] {
  const entries = Object.values(exports).flatMap(({ types }) =>
    types?.startsWith('./dist/') ? [fileURLToPath(new URL(types, root))] : [],
  );
  const options = { strict: true, exactOptionalPropertyTypes: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022 };
  const program = ts.createProgram(entries, { ...options, module: ts.ModuleKind.NodeNext });
  const checker = program.getTypeChecker();
  const found = new Set<string>();
  const seen = new Set<ts.Type>();
  const isOwn = (node: ts.Node): boolean => node.getSourceFile().fileName.startsWith(dist) && !OURS.test(node.getSourceFile().fileName);
  const admits = (type: ts.Type): boolean =>
    (type.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Unknown | ts.TypeFlags.Any)) !== 0 || (type.isUnion() && type.types.some(admits));
  const visit = (type: ts.Type): void => {
    if (seen.has(type)) return;
    seen.add(type);
    if (type.isUnionOrIntersection()) type.types.forEach(visit);
    else if (!(type.flags & ts.TypeFlags.Object) || type.getCallSignatures().length > 0) return;
    for (const item of checker.getTypeArguments(type as ts.TypeReference)) visit(item);
    for (const property of checker.getPropertiesOfType(type)) {
      const declared = property.declarations?.filter((node) => ts.isPropertySignature(node)).filter(isOwn) ?? [];
      for (const { type: node, questionToken, name, parent } of declared) {
        if (!node) continue;
        const wanted = checker.getTypeFromTypeNode(node);
        if (questionToken && !admits(wanted)) found.add(`${ts.isInterfaceDeclaration(parent) ? parent.name.text : '{}'}.${name.getText()}`);
        visit(wanted);
      }
    }
  };
  const visitParameters = (type: ts.Type): void => {
    for (const { parameters } of type.getCallSignatures())
      for (const parameter of parameters) if (parameter.valueDeclaration) visit(checker.getTypeOfSymbol(parameter));
  };
  for (const entry of entries) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(entry)!)!;
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      if (symbol.flags & ts.SymbolFlags.Class)
        for (const member of checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol)))
          visitParameters(checker.getTypeOfSymbol(member));
      else if (symbol.flags & ts.SymbolFlags.Value) visitParameters(checker.getTypeOfSymbol(symbol));
      else if (symbol.name.endsWith('Options')) visit(checker.getDeclaredTypeOfSymbol(symbol));
    }
  }
  expect(seen.size).toBeGreaterThan(100);
  return [...found].sort();
}

it('what users give may be undefined wherever it may be left out', () => {
  expect(lacking()).toEqual([]);
});

it('undefined counts as left out', async () => {
  const nothing = <T extends object>(table: T): { [key in keyof T]: undefined } =>
    Object.fromEntries(Object.keys(table).map((key) => [key, undefined])) as never;
  const model = await loadModel(shippedModel, {
    threads: 1,
    warmUp: false,
    contextLength: 256,
    build: undefined,
    lora: undefined,
    hub: undefined,
  });
  const asked = { maxTokens: 2, temperature: 0 };
  const plain = await model.generate('Once', asked).result();
  expect((await model.generate('Once', { ...nothing(GENERATE_OPTIONS), ...asked }).result()).text).toBe(plain.text);
  const message = {
    role: 'user' as const,
    content: 'Hi',
    name: undefined,
    tool_calls: undefined,
    tool_call_id: undefined,
    reasoning_content: undefined,
  };
  const tool = { type: 'function' as const, function: { name: 'f', description: undefined, parameters: undefined, strict: undefined } };
  const format = { type: 'json_schema' as const, json_schema: { schema: { type: 'boolean' }, name: undefined, strict: undefined } };
  const answer = await model.chat([{ role: 'user', content: 'Hi' }], { ...asked, chatTemplate: 'chatml' }).result();
  const chat = { ...nothing(CHAT_OPTIONS), ...asked, chatTemplate: 'chatml' };
  expect((await model.chat([message], { ...chat, tools: undefined }).result()).content).toBe(answer.content);
  expect((await model.chat([message], { ...chat, tools: [tool], toolChoice: 'none' }).result()).content).toBe(answer.content);
  expect((await model.chat([message], { ...chat, maxTokens: 20, responseFormat: format }).result()).content).toMatch(/^(true|false)$/);
  expect(model.tokenize('a', { addSpecial: undefined })).toEqual(model.tokenize('a'));
  await model.dispose();
});
