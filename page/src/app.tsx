/** The page: the list of conversations, the open conversation and the composer. */
import { effect, signal, useComputed, useSignalEffect } from '@preact/signals';
import { render, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { Backend } from './backend.ts';
import { Composer, attach, pastedFiles, stop } from './composer.tsx';
import { current, isListed, openStore, setSettings, type Conversation } from './conversations.ts';
import { isEscape } from './keys.ts';
import { MessageView } from './message.tsx';
import { newConversation, startRoute } from './route.ts';
import { SettingsDialog } from './settings-view.tsx';
import { Sidebar } from './sidebar.tsx';
import { status } from './status.ts';
import { IconButton, Problem, composerFocus, isFocusLost, settingsOpen, sidebarOpen } from './ui.tsx';
import './style.css';

/**
 * Parts that differ between the two builds of the page: the one that a server serves, and the one
 * that runs the model itself.
 */
export interface Parts {
  readonly backend: Backend;
  /** Chooses a model, in the head of the page. */
  readonly ModelChooser: ComponentType<{ conversation: Conversation }>;
  /** Shown above the settings of a conversation. */
  readonly Settings?: ComponentType;
  /** Shown in an empty conversation. */
  readonly Welcome: ComponentType<{ conversation: Conversation }>;
  /** Shown at the end of the list of conversations. */
  readonly Footer?: ComponentType;
  /** Dialogs of this build. */
  readonly Dialogs?: ComponentType;
  /** Takes dropped files that are not texts to attach. Returns true if it took them. */
  readonly takeFiles?: (files: readonly File[]) => boolean;
}

/** True while the log follows a growing answer to its end. Scrolling up ends that. */
const atEnd = signal(true);

function Log({ backend, conversation, children }: { backend: Backend; conversation: Conversation; children: ComponentChildren }) {
  const log = useRef<HTMLDivElement>(null);
  const messages = conversation.messages.value;
  const top = useRef(0);
  const toEnd = (behavior: ScrollBehavior = 'instant'): void => log.current?.scrollTo({ top: log.current.scrollHeight, behavior });
  useEffect(() => {
    atEnd.value = true;
    toEnd();
    // Follows every growth of the log: a new word, coloured code, a window made narrower.
    const grown = new ResizeObserver(() => atEnd.peek() && toEnd());
    grown.observe(log.current!.firstElementChild!);
    grown.observe(log.current!);
    return () => grown.disconnect();
  }, [conversation]);
  useEffect(() => toEnd(), [messages.length]);
  return (
    <div class="log-frame">
      {/* Before the messages in Tab order: tabbing through the messages reaches the end anyway. */}
      {!atEnd.value && (
        <IconButton icon="down" label="To the end" class="to-end" onClick={() => (toEnd('smooth'), composerFocus.value++)} />
      )}
      <div
        class="log"
        ref={log}
        tabindex={0}
        role="region"
        aria-label="Conversation"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          // Only a scroll upwards stops following: text added since the last event also moves the
          // end away.
          if (scrollHeight - scrollTop - clientHeight < 40) atEnd.value = true;
          else if (scrollTop < top.current) atEnd.value = false;
          top.current = scrollTop;
        }}
      >
        <div class="messages">
          {messages.length === 0
            ? children
            : messages.map((message, i) => (
                <MessageView
                  key={message.peek().parent ?? ''}
                  backend={backend}
                  conversation={conversation}
                  message={message}
                  last={i === messages.length - 1}
                />
              ))}
        </div>
      </div>
    </div>
  );
}

/** Accepts files dropped anywhere on the page, or pasted outside of other fields. */
function useFiles({ backend, takeFiles }: Parts): void {
  useEffect(() => {
    const take = (files: readonly File[]): void => {
      if (!takeFiles?.(files) && current.value) void attach(backend, current.value, files);
    };
    const has = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;
    const over = (event: DragEvent): void => {
      if (!has(event)) return;
      event.preventDefault();
      document.body.classList.add('dropping');
    };
    const leave = (event: DragEvent): void => void (event.relatedTarget ?? document.body.classList.remove('dropping'));
    const drop = (event: DragEvent): void => {
      document.body.classList.remove('dropping');
      if (!has(event)) return;
      event.preventDefault();
      take([...event.dataTransfer!.files]);
    };
    const paste = (event: ClipboardEvent): void => {
      const files = pastedFiles(event);
      const field = (event.target as Element | null)?.closest('input, textarea');
      if (files.length === 0 || (field && !field.closest('.composer')) || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      take(files);
    };
    for (const type of ['dragenter', 'dragover'] as const) document.addEventListener(type, over);
    document.addEventListener('dragleave', leave);
    document.addEventListener('drop', drop);
    document.addEventListener('paste', paste);
  }, []);
}

/** Keyboard shortcuts that work wherever the focus is, except in a dialog. */
function useKeys(): void {
  useEffect(() => {
    addEventListener('keydown', (event) => {
      if (document.querySelector('dialog[open]')) return;
      if (isEscape(event)) {
        if (sidebarOpen.value) sidebarOpen.value = false;
        else if (current.value) stop(current.value);
      }
      if (event.key.toLowerCase() === 'o' && event.shiftKey && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        newConversation();
      }
    });
  }, []);
}

/**
 * Opens the list of conversations on narrow windows, and gets the focus back after the list closes.
 */
function ListButton() {
  const button = useRef<HTMLButtonElement>(null);
  const wasOpen = useRef(false);
  useLayoutEffect(() => {
    if (wasOpen.current && (isFocusLost() || document.activeElement?.closest('.sidebar'))) button.current?.focus();
    wasOpen.current = sidebarOpen.value;
  }, [sidebarOpen.value]);
  useEffect(() => matchMedia('(max-width: 50rem)').addEventListener('change', () => (sidebarOpen.value = false)), []);
  return (
    <IconButton
      icon="menu"
      label="Conversations"
      class="narrow-only"
      ref={button}
      aria-expanded={sidebarOpen.value}
      aria-controls="sidebar"
      onClick={() => (sidebarOpen.value = true)}
    />
  );
}

/** Skips the list of conversations for users of the Tab key. */
const SkipButton = () => (
  <button type="button" class="skip" onClick={() => document.querySelector<HTMLElement>('.composer textarea')?.focus()}>
    To the message
  </button>
);

function App(parts: Parts) {
  const { backend, ModelChooser, Settings, Welcome, Footer, Dialogs } = parts;
  const conversation = current.value!;
  const title = useComputed(() => current.value?.info.value.title || 'New chat');
  useSignalEffect(() => void (document.title = `${title.value} · quantlet`));
  useFiles(parts);
  useKeys();
  // Each conversation has a composer of its own, so that unsent text stays with its conversation.
  const { id } = conversation.info.value;
  return (
    <>
      <SkipButton />
      <Sidebar>{Footer && <Footer />}</Sidebar>
      {sidebarOpen.value && <div class="veil" onClick={() => (sidebarOpen.value = false)} />}
      <div class="chat" inert={sidebarOpen.value}>
        <header class="bar">
          <ListButton />
          <h1>{title}</h1>
          <ModelChooser conversation={conversation} />
          <IconButton icon="settings" label="Settings" onClick={() => (settingsOpen.value = true)} />
        </header>
        <main class={conversation.info.value.settings.mode}>
          <Log key={`log-${id}`} backend={backend} conversation={conversation}>
            <Welcome conversation={conversation} />
          </Log>
          <Problem failure={backend.problem.value} />
          {conversation.messages.value.length > 0 && !isListed(conversation) && (
            <p class="hint deleted">This conversation was deleted in another tab. A message that you send here restores it.</p>
          )}
          <Composer key={`composer-${id}`} backend={backend} conversation={conversation} />
        </main>
      </div>
      <SettingsDialog conversation={conversation}>{Settings && <Settings />}</SettingsDialog>
      {Dialogs && <Dialogs />}
      <p class="visually-hidden" role="status">
        {status}
      </p>
    </>
  );
}

/** A list of models to choose from. With a single model it only shows the name. */
export function ModelSelect({ backend, conversation }: { backend: Backend; conversation: Conversation }) {
  const models = backend.models.value;
  if (models.length < 2) return <span class="model-name">{models[0]?.id}</span>;
  return (
    <select
      class="model-select"
      aria-label="Model"
      value={conversation.info.value.settings.model ?? models[0].id}
      onChange={(event) => setSettings(conversation, { model: event.currentTarget.value })}
    >
      {models.map(({ id }) => (
        <option key={id} value={id}>
          {id}
        </option>
      ))}
    </select>
  );
}

export async function start(parts: Parts): Promise<void> {
  await openStore();
  await startRoute();
  // Switches an empty conversation to the mode of the model: chat, or text if it has no chat
  // template.
  effect(() => {
    const [model] = parts.backend.models.value;
    const conversation = current.value;
    if (!model || !conversation || conversation.messages.value.length > 0) return;
    const mode = model.chat ? 'chat' : 'text';
    if (conversation.info.peek().settings.mode !== mode) setSettings(conversation, { mode });
  });
  render(<App {...parts} />, document.body);
}
