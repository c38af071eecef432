/** The composer: people write messages and attach files here. */
import { signal, useComputed, useSignal, useSignalEffect } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { modelFor, mustSee, send } from './answer.ts';
import { PageError, failureOf, type Backend, type Failure } from './backend.ts';
import type { Conversation } from './conversations.ts';
import { readDraft, readFiles, writeDraft, writeFiles } from './drafts.ts';
import { isEnter } from './keys.ts';
import { say } from './status.ts';
import { tell } from './tabs.ts';
import { isPicture, type Attachment } from './tree.ts';
import { bytes } from './numbers.ts';
import { IconButton, Icon, Problem, composerFocus, onceShown, type IconName } from './ui.tsx';

/** Size limit of an attached file: more text than fits a context of 100,000 tokens. */
const MOST_BYTES = 1 << 20;

/**
 * Key of a conversation's draft. A conversation without messages has no address yet, so all of
 * these share one key.
 */
const draftKey = ({ messages, running, info }: Conversation): string =>
  messages.value.length > 0 || running.value ? info.value.id : 'new';

const attachments = signal<readonly Attachment[]>([]);
/** Draft key of the conversation that is shown. */
let key = 'new';
const failure = signal<Failure | undefined>(undefined);
/** Name of the picture that is being read. */
const reading = signal<string | undefined>(undefined);

function setAttachments(files: readonly Attachment[]): void {
  attachments.value = files;
  writeFiles(key, files);
}

/** @throws PageError if the file is too large or not text */
async function readText(file: File): Promise<Attachment> {
  if (file.size > MOST_BYTES)
    throw new PageError(`The file ${file.name} has ${bytes(file.size)}; expected a text of at most ${bytes(MOST_BYTES)}.`);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return { name: file.name, text: text.replaceAll('\r\n', '\n') };
  } catch {
    // Not UTF-8: refused below.
  }
  throw new PageError(`The file ${file.name} is not text (UTF-8); the model reads only text.`);
}

/** True for pictures, by their type or name. SVG is text. */
const isPictureFile = ({ type, name }: File): boolean =>
  type === '' ? /\.(png|jpe?g|webp|gif|avif|bmp|heic|heif|tiff?)$/i.test(name) : /^image\/(?!svg)/.test(type);

/** @throws PageError if the model sees no pictures, or if the file is not one */
async function readAttachment(backend: Backend, conversation: Conversation, file: File): Promise<Attachment> {
  if (!isPictureFile(file)) return readText(file);
  mustSee(backend, conversation);
  reading.value = file.name;
  const { readPicture } = await import('./pictures.ts');
  return readPicture(file);
}

/** Attaches files to the message that is being written in a conversation. */
export async function attach(backend: Backend, conversation: Conversation, files: Iterable<File>): Promise<void> {
  failure.value = undefined;
  for (const file of files) {
    const own = key;
    try {
      const attachment = await readAttachment(backend, conversation, file);
      // Meanwhile another conversation may be shown.
      if (key === own) setAttachments([...attachments.value, attachment]);
      else writeFiles(own, [...(await readFiles(own)), attachment]);
      say(`${file.name} is attached.`);
    } catch (error) {
      failure.value = failureOf(error);
    }
    reading.value = undefined;
  }
}

/** Files of a paste, unless it has a text too: spreadsheets add a picture of it. */
export function pastedFiles({ clipboardData: data }: ClipboardEvent): File[] {
  return data && !data.types.includes('text/plain') ? [...data.files] : [];
}

function Chips({ onRemove }: { onRemove: () => void }) {
  if (attachments.value.length === 0 && reading.value === undefined) return null;
  return (
    <ul class="chips" aria-label="Attached files">
      {attachments.value.map((file, i) => (
        <li key={`${i} ${file.name}`}>
          {isPicture(file) ? <img class="thumb" src={file.image} alt="" /> : <Icon name="attach" />}
          <span>
            {file.name} {isPicture(file) && file.note && <small>{file.note}</small>}
          </span>
          <IconButton
            icon="close"
            label={`Remove ${file.name}`}
            onClick={() => {
              setAttachments(attachments.value.filter((other) => other !== file));
              onRemove();
            }}
          />
        </li>
      ))}
      {reading.value !== undefined && (
        <li class="reading">
          <progress aria-label={`Reading ${reading.value}`} /> {reading.value}
        </li>
      )}
    </ul>
  );
}

interface FileButtonProps {
  readonly icon: IconName;
  readonly label: string;
  readonly onFiles: (files: readonly File[]) => void;
  /** Takes a picture with the device's camera. */
  readonly camera?: boolean;
}

const FileButton = ({ icon, label, onFiles, camera }: FileButtonProps) => (
  <label class="icon-button" title={label}>
    <Icon name={icon} />
    <input
      type="file"
      aria-label={label}
      {...(camera ? { accept: 'image/*', capture: 'environment' } : { multiple: true })}
      onChange={({ currentTarget: input }) => {
        onFiles([...(input.files ?? [])]);
        input.value = '';
      }}
    />
  </label>
);

/** Buttons that attach files. Only browsers of devices with a camera know `capture`. */
function FileButtons({ sees, onFiles }: { sees: boolean; onFiles: FileButtonProps['onFiles'] }) {
  return (
    <>
      <FileButton icon="attach" label={sees ? 'Attach pictures and text files' : 'Attach text files'} onFiles={onFiles} />
      {sees && 'capture' in HTMLInputElement.prototype && <FileButton icon="camera" label="Take a picture" onFiles={onFiles} camera />}
    </>
  );
}

/** Stops the answer, in whichever tab it is being written. */
export function stop({ running, elsewhere }: Conversation): void {
  if (running.value) running.value.abort();
  else if (elsewhere.value) tell({ type: 'stop', id: elsewhere.value.id });
}

export function Composer({ backend, conversation }: { backend: Backend; conversation: Conversation }) {
  const text = useSignal(readDraft(draftKey(conversation)));
  const area = useRef<HTMLTextAreaElement>(null);
  const busy = conversation.running.value !== undefined;
  const elsewhere = conversation.elsewhere.value !== undefined;
  const { mode } = conversation.info.value.settings;
  const ready = backend.models.value.length > 0;
  const sees = mode === 'chat' && modelFor(backend, conversation)?.sees !== false;
  const canSend = useComputed(() => reading.value === undefined && (text.value.trim() !== '' || attachments.value.length > 0));
  const setText = (value: string): void => {
    text.value = value;
    writeDraft(draftKey(conversation), value);
  };
  // Not on touch screens, where the focus would open a keyboard over half of the screen.
  const focus = (): void => {
    if (!matchMedia('(pointer: coarse)').matches) area.current?.focus({ preventScroll: true });
  };
  useSignalEffect(() => void (composerFocus.value > 0 && onceShown(focus)));
  useLayoutEffect(() => {
    focus();
    const own = draftKey(conversation);
    key = own;
    attachments.value = [];
    failure.value = undefined;
    void readFiles(own).then((files) => {
      if (key === own && attachments.value.length === 0) attachments.value = files;
    });
  }, [conversation]);
  // As high as its text, up to a limit of the style sheet. Not all browsers have the CSS property
  // field-sizing.
  useEffect(() => {
    const { style } = area.current!;
    style.height = 'auto';
    style.height = `${area.current!.scrollHeight + 2}px`;
  }, [text.value]);

  const submit = (): void => {
    if (conversation.running.value || !ready || !canSend.value) return;
    const [content, files] = [text.value, attachments.value];
    setText('');
    setAttachments([]);
    failure.value = undefined;
    void send(backend, conversation, mode === 'text' ? content : content.trim(), files);
    key = conversation.info.value.id;
    focus();
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
      <Chips onRemove={focus} />
      <div class="composer-row">
        <FileButtons sees={ready && sees} onFiles={(files) => void attach(backend, conversation, files)} />
        <textarea
          ref={area}
          rows={1}
          aria-label={mode === 'text' ? 'Text' : 'Message'}
          aria-keyshortcuts="Enter"
          placeholder={mode === 'text' ? 'Begin a text, and the model continues it' : 'Message'}
          value={text.value}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (!isEnter(event)) return;
            event.preventDefault();
            submit();
          }}
        />
        {(busy || elsewhere) && (
          <IconButton
            icon="stop"
            label="Stop"
            class="stop"
            aria-keyshortcuts="Escape"
            onClick={() => {
              stop(conversation);
              focus();
            }}
          />
        )}
        {!busy && (
          <button type="submit" class="icon-button send" aria-label="Send" title="Send" disabled={!ready || !canSend.value}>
            <Icon name="send" />
          </button>
        )}
      </div>
      <p class="hint keys">Enter sends, Shift+Enter breaks the line, Escape stops, {NEW_CHAT_KEYS} begins a new chat.</p>
    </form>
  );
}

const NEW_CHAT_KEYS = /Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘⇧O' : 'Ctrl+Shift+O';
