/**
 * Tools of /v1/responses: functions, and namespaces of functions. Models know only functions, so a
 * function of a namespace gets a name made of both.
 */
import { isRecord } from '../../chat/json.ts';
import type { ChatTool } from '../../chat/messages.ts';
import type { ChatOptions } from '../../chat/options.ts';
import { callable, functionTools } from './chat.ts';
import type { Context } from '../context.ts';
import { invalid, type Body } from './fields.ts';

/** A function's name in the client's terms. */
export interface FunctionName {
  readonly name: string;
  readonly namespace?: string | undefined;
}

export interface ResponseTools {
  readonly tools: ChatTool[];
  /** The client's name of the function that the model called. */
  nameOf(called: string): FunctionName;
}

const SHAPE = '{"type": "function", "name", "parameters"} or {"type": "namespace", "name", "tools"}';

/** The model's name of a function. */
export const calledName = ({ name, namespace }: FunctionName): string =>
  (namespace ?? undefined) === undefined ? name : `${namespace}__${name}`;

/** @throws HttpError 400 for invalid tools */
export function responseTools(context: Context, body: Body): ResponseTools {
  const names = new Map<string, FunctionName>();
  const tools = callable(context, body.tools ?? []);
  if (!Array.isArray(tools) || !tools.every(isRecord)) throw invalid('tools', `a list of ${SHAPE}`, body.tools);
  const functions = tools.flatMap((tool) => (tool.type === 'namespace' ? namespaceFunctions(tool, names) : [functionOf(tool)]));
  const checked = functionTools(functions, body.tools, SHAPE);
  if (new Set(checked.map(({ function: { name } }) => name)).size < checked.length && names.size > 0)
    throw invalid('tools', 'functions whose names differ, with their namespaces before them', body.tools);
  return { tools: checked, nameOf: (called) => names.get(called) ?? { name: called } };
}

const functionOf = ({ type = 'function', ...rest }: Body): object => ({ type, function: rest });

/** The functions of a namespace. The namespace's description is put before each function's. */
function namespaceFunctions({ name: namespace, description: about, tools }: Body, names: Map<string, FunctionName>): object[] {
  if (typeof namespace !== 'string' || !Array.isArray(tools) || !tools.every((tool) => isRecord(tool) && typeof tool.name === 'string'))
    throw invalid('tools', `a list of ${SHAPE}`, { type: 'namespace', name: namespace, tools });
  return (tools as (Body & { name: string })[]).map(({ name, description, ...rest }) => {
    const called = calledName({ name, namespace });
    names.set(called, { name, namespace });
    return functionOf({ ...rest, name: called, description: [about, description].filter((text) => (text ?? '') !== '').join('\n') });
  });
}

export function toolChoice(body: Body): NonNullable<ChatOptions['toolChoice']> {
  const choice = body.tool_choice ?? 'auto';
  if (choice === 'auto' || choice === 'none' || choice === 'required') return choice;
  if (isRecord(choice) && choice.type === 'function' && typeof choice.name === 'string')
    return { name: calledName(choice as unknown as FunctionName) };
  throw invalid('tool_choice', '"auto", "none", "required" or {"type": "function", "name"}', choice);
}
