/** One message: what was said, how it ended, and what can be done with it. */
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { canGoOn, giveResults, goOn, regenerate, rewrite, sendEdited } from './answer.ts';
import type { AnswerEnd, Backend, Call } from './backend.ts';
import type { Conversation, Message } from './conversations.ts';
import { blocksOf, codeHtml, type Block } from './markdown.ts';
import { typeset } from './math.ts';
import { CopyButton, Icon, IconButton, Problem, count, significant } from './ui.tsx';

export interface MessageProps {
  readonly backend: Backend;
  readonly conversation: Conversation;
  readonly message: Signal<Message>;
  readonly last: boolean;
}

const Code = ({ code, language, html }: { code: string; language: string; html: string }) => (
  <div class="code">
    <div class="code-head">
      <span>{language || 'text'}</span>
      <CopyButton text={() => code} label="Copy the code" />
    </div>
    <pre tabindex={0} role="group" aria-label="Code">
      <code dangerouslySetInnerHTML={{ __html: html }} />
    </pre>
  </div>
);

function Markdown({ text }: { text: string }) {
  const blocks = useRef<readonly Block[]>([]);
  // What was shown as TeX is shown anew once it can be typeset.
  const by = useRef(typeset.value);
  if (by.current !== typeset.value) blocks.current = [];
  by.current = typeset.value;
  blocks.current = blocksOf(text, blocks.current);
  return (
    <div class="markdown">
      {blocks.current.map((block, i) =>
        block.type === 'code' ? <Code key={i} {...block} /> : <div key={i} dangerouslySetInnerHTML={{ __html: block.html }} />,
      )}
    </div>
  );
}

/** What the model thought before it answered: open while it thinks, folded from its answer's first word on. */
function Reasoning({ text, thinking }: { text: string; thinking: boolean }) {
  return (
    <details class="reasoning" open={thinking}>
      <summary>{thinking ? 'Thinking …' : 'Thoughts'}</summary>
      <div class="plain">{text}</div>
    </details>
  );
}

const indented = (json: string): string => {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
};

function CallView({ call }: { call: Call }) {
  const text = indented(call.arguments);
  return (
    <div class="call">
      <p>
        <Icon name="cpu" /> Calls <code>{call.name}</code>
      </p>
      <Code code={text} language="json" html={codeHtml(text, 'json')} />
    </div>
  );
}

/** The functions are the reader's: what they gave is typed in here, and the model goes on with it. */
function Results({ backend, conversation, calls }: Pick<MessageProps, 'backend' | 'conversation'> & { calls: readonly Call[] }) {
  const results = useSignal<readonly string[]>(calls.map(() => ''));
  return (
    <form
      class="results"
      onSubmit={(event) => {
        event.preventDefault();
        void giveResults(
          backend,
          conversation,
          calls.map(({ id }, i) => ({ callId: id, content: results.value[i] })),
        );
      }}
    >
      {calls.map((call, i) => (
        <label class="field" key={call.id}>
          <span>
            What <code>{call.name}</code> gave
          </span>
          <textarea
            rows={2}
            required
            value={results.value[i]}
            onInput={(event) => (results.value = results.value.with(i, event.currentTarget.value))}
          />
        </label>
      ))}
      <button type="submit" class="primary">
        Go on with the result
      </button>
    </form>
  );
}

interface EditorProps {
  readonly text: string;
  readonly action: string;
  readonly hint?: string | false;
  readonly onSave: (text: string) => void;
  readonly onCancel: () => void;
}

function Editor({ text, action, hint, onSave, onCancel }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, []);
  const save = (): void => {
    const edited = area.current!.value;
    if (edited.trim()) onSave(edited);
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onCancel();
        }
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) save();
      }}
    >
      <textarea ref={area} aria-label="Message" rows={Math.min(20, text.split('\n').length + 1)} defaultValue={text} />
      <div class="row">
        <button type="submit" class="primary">
          {action}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        {hint && <small>{hint}</small>}
      </div>
    </form>
  );
}

/** Tokens a second, and how much of the context is taken. */
function Speed({ end, model, contextLength }: { end: AnswerEnd; model: string | undefined; contextLength: number | undefined }) {
  const { tokens, promptTokens, cachedTokens, promptMs = 0, predictedMs = 0 } = end;
  const read = promptTokens - cachedTokens;
  const facts = [
    model,
    `${count(tokens)} token${tokens === 1 ? '' : 's'}`,
    // The first token comes out of reading the prompt.
    tokens > 1 && predictedMs > 0 && `${significant((tokens - 1) / (predictedMs / 1000))} tokens/s`,
    read > 0 && promptMs > 0 && `prompt ${count(read)} at ${significant(read / (promptMs / 1000))} tokens/s`,
    contextLength && `context ${count(Math.min(promptTokens + tokens, contextLength))} of ${count(contextLength)}`,
  ];
  return <span class="speed">{facts.filter(Boolean).join(' · ')}</span>;
}

/** Whether an answer took the rest of the context: then there is nowhere to go on. */
const isFull = (end: AnswerEnd | undefined, contextLength: number | undefined): boolean =>
  !!end && contextLength !== undefined && end.promptTokens + end.tokens >= contextLength;

const SPEAKERS = { user: 'You', assistant: 'Model', tool: 'Result of a function' };

export function MessageView({ backend, conversation, message, last }: MessageProps) {
  const editing = useSignal(false);
  const { role, content, reasoning, calls, attachments, state, failure, end, model } = message.value;
  const { mode } = conversation.info.value.settings;
  const streaming = state === 'streaming';
  const busy = conversation.running.value !== undefined;
  const contextLength = backend.models.value.find(({ id }) => id === model)?.contextLength;
  const mine = role === 'user';
  const full = isFull(end, contextLength);
  return (
    <article class={`message ${role}`} aria-label={SPEAKERS[role]} aria-busy={streaming}>
      {reasoning && <Reasoning text={reasoning} thinking={streaming && content === '' && !calls} />}
      {editing.value ? (
        <Editor
          text={content}
          action={mine ? 'Send' : 'Save'}
          hint={mine && 'What came after it will be replaced.'}
          onCancel={() => (editing.value = false)}
          onSave={(text) => {
            editing.value = false;
            if (mine) void sendEdited(backend, conversation, message, text);
            else rewrite(conversation, message, text);
          }}
        />
      ) : role === 'assistant' && mode === 'chat' ? (
        <Markdown text={content} />
      ) : (
        content && <div class="plain bubble">{content}</div>
      )}
      {attachments?.map((file) => (
        <details class="attachment" key={file.name}>
          <summary>
            <Icon name="attach" /> {file.name} <small>{count(file.text.length)} characters</small>
          </summary>
          <pre tabindex={0}>{file.text}</pre>
        </details>
      ))}
      {calls?.map((call) => (
        <CallView key={call.id} call={call} />
      ))}
      {streaming && <span class="cursor" aria-hidden="true" />}
      {last && calls && state === 'done' && <Results backend={backend} conversation={conversation} calls={calls} />}
      {state === 'failed' && (
        <Problem failure={failure}>
          <button type="button" disabled={busy} onClick={() => void regenerate(backend, conversation, message)}>
            Try again
          </button>
        </Problem>
      )}
      {(state === 'stopped' || state === 'length') && (
        <p class="ended">
          {state === 'stopped'
            ? 'Stopped'
            : full
              ? 'The context is full: the rest needs a longer one, or a new chat'
              : 'Cut at the limit of new tokens'}
          {last && !full && canGoOn(message.value) && (
            <button type="button" disabled={busy} onClick={() => void goOn(backend, conversation)}>
              <Icon name="goOn" /> Continue
            </button>
          )}
        </p>
      )}
      {!streaming && !editing.value && role !== 'tool' && (content !== '' || calls) && (
        <div class="actions">
          <CopyButton text={() => content} label={mine ? 'Copy the message' : 'Copy the answer'} />
          {!calls && <IconButton icon="edit" label="Edit" disabled={busy} onClick={() => (editing.value = true)} />}
          {last && !mine && state !== 'failed' && (
            <IconButton icon="again" label="Answer again" disabled={busy} onClick={() => void regenerate(backend, conversation, message)} />
          )}
          {end && <Speed end={end} model={backend.models.value.length > 1 ? model : undefined} contextLength={contextLength} />}
        </div>
      )}
    </article>
  );
}
