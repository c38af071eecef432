/** One message: its content, how it ended, and the actions on it. */
import { useSignal, type Signal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { canGoOn, goOn, leaveOutAndRetry, regenerate, rewrite, sendEdited } from './answer.ts';
import { isContextFull, type AnswerEnd, type Backend, type ReadingPart } from './backend.ts';
import { CallView, Results } from './calls.tsx';
import { Code } from './code.tsx';
import { choose, type Conversation } from './conversations.ts';
import { hasDraft } from './drafts.ts';
import { Editor, editKey } from './editor.tsx';
import { blocksOf, type Block } from './markdown.ts';
import { typeset } from './math.ts';
import { isPicture, picturesOf, type Message, type Picture, type TextFile } from './tree.ts';
import { count, significant } from './numbers.ts';
import { CopyButton, Icon, IconButton, Problem, composerFocus } from './ui.tsx';

export interface MessageProps {
  readonly backend: Backend;
  readonly conversation: Conversation;
  readonly message: Signal<Message>;
  readonly last: boolean;
}

function Markdown({ text }: { text: string }) {
  const blocks = useRef<readonly Block[]>([]);
  // Formulas shown as TeX are drawn again after a typesetter has loaded.
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

/** The model's reasoning: open while the model thinks, folded after the answer's first word. */
function Reasoning({ text, thinking }: { text: string; thinking: boolean }) {
  return (
    <details class="reasoning" open={thinking}>
      <summary>{thinking ? 'Thinking …' : 'Thoughts'}</summary>
      <div class="plain" tabindex={0} role="group" aria-label="Thoughts">
        {text}
      </div>
    </details>
  );
}

/** Tokens per second, and the used part of the context. */
function Speed({ end, model, contextLength }: { end: AnswerEnd; model: string | undefined; contextLength: number | undefined }) {
  const { tokens, promptTokens, cachedTokens, promptMs = 0, predictedMs = 0 } = end;
  const read = promptTokens - cachedTokens;
  const facts = [
    model,
    `${count(tokens)} token${tokens === 1 ? '' : 's'}`,
    // The prompt's step gives the first token.
    tokens > 1 && predictedMs > 0 && `${significant((tokens - 1) / (predictedMs / 1000))} tokens/s`,
    read > 0 && promptMs > 0 && `prompt ${count(read)} at ${significant(read / (promptMs / 1000))} tokens/s`,
    contextLength && `context ${count(Math.min(promptTokens + tokens, contextLength))} of ${count(contextLength)}`,
  ];
  return <span class="speed">{facts.filter(Boolean).join(' · ')}</span>;
}

/** True if an answer filled the context, so it cannot be continued. */
const isFull = (end: AnswerEnd | undefined, contextLength: number | undefined): boolean =>
  !!end && contextLength !== undefined && end.promptTokens + end.tokens >= contextLength;

const SPEAKERS = { user: 'You', assistant: 'Model', tool: 'Result of a function' };

const PictureView = ({ picture: { name, image, note } }: { picture: Picture }) => (
  <figure class="picture">
    <img src={image} alt={`Picture ${name}`} />
    {note && <figcaption>{note}</figcaption>}
  </figure>
);

const TextFileView = ({ file }: { file: TextFile }) => (
  <details class="attachment">
    <summary>
      <Icon name="attach" /> {file.name} <small>{count(file.text.length)} characters</small>
    </summary>
    <pre tabindex={0}>{file.text}</pre>
  </details>
);

/** Shown until the first word of an answer to pictures, which models take seconds to read. */
const ReadingPictures = ({ count: n, reading }: { count: number; reading: ReadingPart | undefined }) => {
  const pictures = n === 1 ? 'picture' : `${count(n)} pictures`;
  const what = reading && reading.pictures === undefined ? 'conversation' : pictures;
  const fraction = reading?.pictures ?? reading?.tokens;
  return (
    <p class="loading">
      <progress aria-label={`Reading the ${what}`} value={fraction} />
      <span>
        The model reads the {what} … {fraction !== undefined && `${Math.floor(100 * fraction)} %`}
      </span>
    </p>
  );
};

/** Steps through the versions of a message. */
function Versions({ conversation, message }: Pick<MessageProps, 'conversation' | 'message'>) {
  const { id, parent } = message.value;
  const versions = conversation.versions.value.get(parent) ?? [];
  const at = versions.indexOf(id);
  if (versions.length < 2) return null;
  const step = (icon: 'back' | 'next', label: string, to: number) => (
    <IconButton
      icon={icon}
      label={label}
      aria-disabled={!versions[to]}
      onClick={() => versions[to] && choose(conversation, versions[to])}
    />
  );
  return (
    <div class="versions" role="group" aria-label="Versions">
      {step('back', 'Version before', at - 1)}
      <span>
        {at + 1} / {versions.length}
      </span>
      {step('next', 'Version after', at + 1)}
    </div>
  );
}

/**
 * Starts an answer. The button that started it disappears or is disabled, so the focus goes to the
 * composer, where Escape stops the answer.
 */
function ask(answer: Promise<void>): void {
  void answer;
  composerFocus.value++;
}

/** Shows how many messages were left out, the failure, and the buttons to continue or retry. */
function Ending({ backend, conversation, message, last, full }: MessageProps & { full: boolean }) {
  const { state, failure, leftOut = 0 } = message.value;
  const { mode, whenFull } = conversation.info.value.settings;
  const busy = conversation.running.value !== undefined;
  const goesOn = last && canGoOn(message.value);
  const leavesOut = whenFull === 'leaveOut';
  const oldest = mode === 'text' ? 'the beginning of the text' : 'the oldest messages';
  const leaveOut = (label: string) => (
    <button type="button" disabled={busy} onClick={() => ask(leaveOutAndRetry(backend, conversation, message))}>
      {label}
    </button>
  );
  const continues = (
    <button type="button" disabled={busy} onClick={() => ask(goOn(backend, conversation))}>
      <Icon name="goOn" /> Continue
    </button>
  );
  return (
    <>
      {leftOut > 0 && (
        <p class="ended">
          {mode === 'text'
            ? 'The context is full: the model did not see the beginning of the text.'
            : `The context is full: the model did not see the oldest ${leftOut === 1 ? 'message' : `${count(leftOut)} messages`}.`}
        </p>
      )}
      {state === 'failed' && (
        <Problem failure={failure}>
          {goesOn && continues}
          <button type="button" disabled={busy} onClick={() => ask(regenerate(backend, conversation, message))}>
            Try again
          </button>
          {failure && isContextFull(failure) && !leavesOut && last && leaveOut(`Leave out ${oldest}`)}
        </Problem>
      )}
      {(state === 'stopped' || state === 'length') && (
        <p class="ended">
          {state === 'stopped' ? 'Stopped' : full ? 'The context is full' : 'Cut at the limit of new tokens'}
          {goesOn && (!full || leavesOut) && continues}
          {goesOn && full && !leavesOut && leaveOut(`Continue without ${oldest}`)}
        </p>
      )}
    </>
  );
}

function Actions({ backend, conversation, message, onEdit }: MessageProps & { onEdit: () => void }) {
  const { parent, role, content, calls, state, end, model } = message.value;
  const busy = conversation.running.value !== undefined;
  const mine = role === 'user';
  const whole = state !== 'streaming' && role !== 'tool';
  const again = whole && !mine && state !== 'failed';
  const several = (conversation.versions.value.get(parent)?.length ?? 0) > 1;
  const written = whole && (content !== '' || calls !== undefined);
  if (!several && !again && !written) return null;
  const contextLength = backend.models.value.find(({ id }) => id === model)?.contextLength;
  return (
    <div class="actions">
      <Versions conversation={conversation} message={message} />
      {written && <CopyButton text={() => content} label={mine ? 'Copy the message' : 'Copy the answer'} />}
      {written && !calls && <IconButton icon="edit" label="Edit" disabled={busy} onClick={onEdit} />}
      {again && (
        <IconButton icon="again" label="Answer again" disabled={busy} onClick={() => ask(regenerate(backend, conversation, message))} />
      )}
      {whole && end && <Speed end={end} model={backend.models.value.length > 1 ? model : undefined} contextLength={contextLength} />}
    </div>
  );
}

function EditorOf({ backend, conversation, message, onSaved, onCancel }: MessageProps & { onSaved: () => void; onCancel: () => void }) {
  const { id, role, content } = message.value;
  const mine = role === 'user';
  return (
    <Editor
      id={id}
      text={content}
      action={mine ? 'Send' : 'Save'}
      hint={`Enter ${mine ? 'sends' : 'saves'}, Shift+Enter breaks the line, Escape cancels. The version before stays.`}
      onCancel={onCancel}
      onSave={(text) => {
        onSaved();
        if (mine) void sendEdited(backend, conversation, message, text);
        else void rewrite(conversation, message, text);
        composerFocus.value++;
      }}
    />
  );
}

export function MessageView(props: MessageProps) {
  const { backend, conversation, message, last } = props;
  const { id, role, content, reasoning, calls, attachments, state, end, model } = message.value;
  const editing = useSignal(hasDraft(editKey(id)) ? id : '');
  const { mode } = conversation.info.value.settings;
  const streaming = state === 'streaming';
  const article = useRef<HTMLElement>(null);
  const contextLength = backend.models.value.find((one) => one.id === model)?.contextLength;
  const cancelEditing = (): void => {
    editing.value = '';
    // Puts the focus back on the edit button.
    requestAnimationFrame(() => article.current?.querySelector<HTMLElement>('.actions [aria-label=Edit]')?.focus());
  };
  const isEdited = editing.value === id && !streaming;
  const unbegun = streaming && content === '' && !reasoning && !calls;
  const question = unbegun && message.value.parent ? conversation.tree.value.get(message.value.parent)?.value : undefined;
  const seen = question ? picturesOf(question).length : 0;
  return (
    <article ref={article} class={`message ${role}`} aria-label={SPEAKERS[role]} aria-busy={streaming}>
      {reasoning && <Reasoning text={reasoning} thinking={streaming && content === '' && !calls} />}
      {isEdited ? (
        <EditorOf {...props} onSaved={() => (editing.value = '')} onCancel={cancelEditing} />
      ) : role === 'assistant' && mode === 'chat' ? (
        <Markdown text={content} />
      ) : (
        content && <div class="plain bubble">{content}</div>
      )}
      {attachments?.map((file, i) => (isPicture(file) ? <PictureView key={i} picture={file} /> : <TextFileView key={i} file={file} />))}
      {calls?.map((call) => (
        <CallView key={call.id} call={call} />
      ))}
      {seen > 0 && <ReadingPictures count={seen} reading={conversation.reading.value} />}
      {streaming && seen === 0 && <span class="cursor" aria-hidden="true" />}
      {last && calls && state === 'done' && <Results key={id} backend={backend} conversation={conversation} id={id} calls={calls} />}
      <Ending {...props} full={isFull(end, contextLength)} />
      {!isEdited && <Actions {...props} onEdit={() => (editing.value = id)} />}
    </article>
  );
}
