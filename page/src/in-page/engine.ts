/** The backend of the page that runs the model itself. */
import { batch, computed, signal } from '@preact/signals';
import type { ChatMessage, GenerationResult, LoadOptions, Model, ModelChatOptions, ModelSource } from 'quantlet';
import { Reading, withReading } from '../../../src/generate/progress.ts';
import {
  PageError,
  failureOf,
  readingPart,
  type AnswerEnd,
  type AnswerPart,
  type AnswerRequest,
  type Backend,
  type Failure,
  type ModelInfo,
  type WireMessage,
} from '../backend.ts';
import { fitText, roomFor } from '../fit.ts';
import { newId } from '../tree.ts';
import { say } from '../status.ts';

/**
 * Source of a model: an address, or files chosen on this device (several files are the parts of a
 * split model).
 */
export type ModelFiles = string | readonly File[];
/** Source of a projector, with which a model sees pictures. */
export type Projector = string | File;

export interface Loaded {
  readonly model: Model;
  readonly files: ModelFiles;
  readonly name: string;
  readonly projector?: Projector | undefined;
}

export interface Loading {
  readonly name: string;
  readonly loaded: number;
  /** 0: not known yet. */
  readonly total: number;
  readonly stop: () => void;
}

export const loaded = signal<Loaded | undefined>(undefined);
export const loading = signal<Loading | undefined>(undefined);
/** Failure of the last load. */
export const loadFailure = signal<Failure | undefined>(undefined);
/** Context length for the next load; undefined: the model's own, but at most 4096. */
export const contextLength = signal<number | undefined>(undefined);

/** Files in the form that loadModel() takes. */
const sourceOf = (files: ModelFiles): ModelSource | readonly ModelSource[] =>
  typeof files !== 'string' && files.length === 1 ? files[0] : files;

/**
 * Opens a model. The engine is imported with the first model, so that the page itself appears
 * sooner.
 */
export async function openFiles(files: ModelFiles, options: LoadOptions): Promise<Model> {
  const { loadModel } = await import('quantlet');
  return loadModel(sourceOf(files), { ...(contextLength.value === undefined ? {} : { contextLength: contextLength.value }), ...options });
}

/** A model and its projector by their addresses. */
export interface ModelAddress {
  readonly url: string;
  readonly name: string;
  readonly projector?: string | undefined;
}

/** The last address that was loaded, for the next visit to begin with. */
export const lastAddress = {
  get: (): ModelAddress | undefined => {
    try {
      return (JSON.parse(localStorage.getItem('model') ?? 'null') as ModelAddress | null) ?? undefined;
    } catch {
      return undefined;
    }
  },
  set(address: ModelAddress): void {
    try {
      localStorage.setItem('model', JSON.stringify(address));
    } catch {
      // Without storage the next visit begins without a model.
    }
  },
};

/**
 * Loads a model. The previous model stays usable until the new one is ready. A load that is already
 * running is stopped.
 */
export async function load(files: ModelFiles, name: string, projector?: Projector): Promise<void> {
  loading.value?.stop();
  const controller = new AbortController();
  const mine: Loading = { name, loaded: 0, total: 0, stop: () => controller.abort(new DOMException('stopped', 'AbortError')) };
  loading.value = mine;
  loadFailure.value = undefined;
  const isMine = (): boolean => loading.value?.stop === mine.stop;
  say(`Loading ${name}.`);
  try {
    const model = await openFiles(files, {
      mmproj: projector ?? false, // a projector is chosen, and never comes along
      signal: controller.signal,
      onProgress: (progress) => isMine() && (loading.value = { ...mine, ...progress }),
    });
    if (!isMine()) return void model.dispose();
    const before = loaded.value;
    batch(() => {
      loaded.value = { model, files, name, projector };
      loading.value = undefined;
    });
    if (typeof files === 'string' && typeof projector !== 'object') lastAddress.set({ url: files, name, projector });
    say(`${name} is loaded.`);
    await before?.model.dispose();
  } catch (error) {
    if (!isMine()) return;
    loading.value = undefined;
    if (!controller.signal.aborted) loadFailure.value = failureOf(error);
    else say('Loading was stopped.');
  }
}

const hasPictures = ({ content }: WireMessage): boolean => typeof content !== 'string' && content.some(({ type }) => type === 'image_url');

async function* answer({ task, options, leaveOut, signal }: AnswerRequest): AsyncGenerator<AnswerPart, AnswerEnd> {
  if (!loaded.value) throw new PageError('No model is loaded yet. Choose one above.');
  const { model } = loaded.value;
  if ('prompt' in task) {
    const { tools: _, toolChoice: __, templateVariables: ___, ...sampling } = options;
    const room = leaveOut ? roomFor(model.contextLength, options.maxTokens) : Infinity;
    const { prompt, leftOut } = await fitText(task.prompt, room, (text) => model.tokenize(text, { addSpecial: true }).length);
    if (leftOut > 0) yield { type: 'leftOut', messages: leftOut };
    const generation = model.generate(prompt, { ...sampling, signal });
    for await (const { text } of generation) if (text !== '') yield { type: 'content', delta: text };
    return end(await generation.result());
  }
  const messages = task.messages.some(hasPictures) ? await (await import('./decode.ts')).decoded(task.messages, signal) : task.messages;
  const parts = withReading((onProgress) =>
    chatParts(model, messages, {
      ...options,
      ...(task.continues ? { continueFinalMessage: true } : {}),
      ...(leaveOut ? { onContextFull: 'shift' } : {}),
      ...{ signal, onProgress },
    }),
  );
  for (;;) {
    const next = await parts.next();
    if (next.done) return next.value;
    yield next.value instanceof Reading ? readingPart(next.value, next.value.images) : next.value;
  }
}

async function* chatParts(
  model: Model,
  messages: readonly ChatMessage[],
  options: ModelChatOptions,
): AsyncGenerator<AnswerPart, AnswerEnd> {
  const chat = model.chat(messages, options);
  for await (const event of chat) {
    // The page runs no tools; people type in the results.
    if (event.type === 'toolResult') continue;
    if (event.type === 'toolCallDelta') continue;
    if (event.type !== 'toolCall') yield event;
    else yield { type: 'toolCall', call: { id: event.call.id ?? newId(), name: event.call.name, arguments: event.call.arguments } };
  }
  return end(await chat.result());
}

type Result = Pick<GenerationResult, 'promptIds' | 'ids' | 'timings'> & { readonly finishReason: string };

const end = ({ finishReason, promptIds: { length }, ids, timings }: Result): AnswerEnd => ({
  finishReason,
  promptTokens: length,
  cachedTokens: length - timings.promptTokens,
  tokens: ids.length,
  promptMs: timings.promptMs,
  predictedMs: timings.predictedMs,
});

export const backend: Backend = {
  models: computed<readonly ModelInfo[]>(() =>
    loaded.value
      ? [
          {
            id: loaded.value.name,
            contextLength: loaded.value.model.contextLength,
            chat: loaded.value.model.metadata.has('tokenizer.chat_template'),
            sees: loaded.value.model.modalities.vision,
          },
        ]
      : [],
  ),
  problem: signal(undefined),
  count: (text) => loaded.value?.model.tokenize(text).length ?? 0,
  enlarge: 'load the model with a larger context (under Models)',
  toSee: 'This model reads no pictures. Load one that does, together with its projector (under Models).',
  answer,
};
