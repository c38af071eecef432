/** Where people write, and drop files. */
import { signal, useComputed, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { send } from './answer.ts';
import { PageError, failureOf, type Backend, type Failure } from './backend.ts';
import type { Attachment, Conversation } from './conversations.ts';
import { IconButton, Icon, Problem, bytes } from './ui.tsx';

/** More than a context of a hundred thousand tokens takes. */
const MOST_BYTES = 1 << 20;

const attachments = signal<readonly Attachment[]>([]);
const failure = signal<Failure | undefined>(undefined);

/** @throws PageError where a file is too large or no text */
async function readText(file: File): Promise<Attachment> {
  if (file.size > MOST_BYTES)
    throw new PageError(`The file ${file.name} has ${bytes(file.size)}; expected a text of at most ${bytes(MOST_BYTES)}.`);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return { name: file.name, text: text.replaceAll('\r\n', '\n') };
  } catch {
    // What follows says it.
  }
  throw new PageError(`${file.name} is not text (UTF-8); the model reads only text.`);
}

export async function attach(files: Iterable<File>): Promise<void> {
  failure.value = undefined;
  for (const file of files) {
    try {
      attachments.value = [...attachments.value, await readText(file)];
    } catch (error) {
      failure.value = failureOf(error);
    }
  }
}

export function Composer({ backend, conversation }: { backend: Backend; conversation: Conversation }) {
  const text = useSignal('');
  const area = useRef<HTMLTextAreaElement>(null);
  const busy = conversation.running.value !== undefined;
  const { mode } = conversation.info.value.settings;
  const ready = backend.models.value.length > 0;
  const canSend = useComputed(() => text.value.trim() !== '' || attachments.value.length > 0);
  // Not where that would open a keyboard over half of the screen.
  useEffect(() => {
    if (matchMedia('(pointer: fine)').matches) area.current?.focus({ preventScroll: true });
  }, [conversation]);
  // As high as its text, up to a limit of the style sheet; the property field-sizing is not everywhere yet.
  useEffect(() => {
    const { style } = area.current!;
    style.height = 'auto';
    style.height = `${area.current!.scrollHeight + 2}px`;
  }, [text.value]);

  const submit = (): void => {
    if (busy || !ready || !canSend.value) return;
    void send(backend, conversation, mode === 'text' ? text.value : text.value.trim(), attachments.value);
    text.value = '';
    attachments.value = [];
    failure.value = undefined;
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Problem failure={failure.value} />
      {attachments.value.length > 0 && (
        <ul class="chips" aria-label="Attached files">
          {attachments.value.map((file) => (
            <li key={file.name}>
              <Icon name="attach" /> {file.name}
              <IconButton
                icon="close"
                label={`Remove ${file.name}`}
                onClick={() => (attachments.value = attachments.value.filter((other) => other !== file))}
              />
            </li>
          ))}
        </ul>
      )}
      <div class="composer-row">
        <label class="icon-button" title="Attach text files">
          <Icon name="attach" />
          <input
            type="file"
            multiple
            aria-label="Attach text files"
            onChange={(event) => {
              void attach([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = '';
            }}
          />
        </label>
        <textarea
          ref={area}
          rows={1}
          aria-label={mode === 'text' ? 'Text' : 'Message'}
          aria-keyshortcuts="Enter"
          placeholder={mode === 'text' ? 'Begin a text; the model goes on with it' : 'Message'}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            submit();
          }}
        />
        {busy ? (
          <IconButton
            icon="stop"
            label="Stop"
            class="stop"
            aria-keyshortcuts="Escape"
            onClick={() => conversation.running.value?.abort()}
          />
        ) : (
          <button type="submit" class="icon-button send" aria-label="Send" title="Send" disabled={!ready || !canSend.value}>
            <Icon name="send" />
          </button>
        )}
      </div>
      <p class="hint keys">Enter sends, Shift+Enter breaks the line, Escape stops.</p>
    </form>
  );
}
