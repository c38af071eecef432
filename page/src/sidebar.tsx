/** The list of conversations. */
import { signal, useSignal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { failureOf, type Failure } from './backend.ts';
import { bringBack, current, list, notKept, remove, rename, type Conversation } from './conversations.ts';
import type { Info } from './database.ts';
import { isEscape } from './keys.ts';
import { newConversation } from './route.ts';
import { say } from './status.ts';
import { exportJson, importJson } from './transfer.ts';
import { ConfirmDelete, Icon, IconButton, Mark, Problem, composerFocus, download, isFocusLost, onceShown, sidebarOpen } from './ui.tsx';

const failure = signal<Failure | undefined>(undefined);
const fileName = (title: string): string =>
  `${
    title
      .replace(/[^\p{L}\p{N}]+/gu, '-')
      .replace(/^-|-$/g, '')
      .slice(0, 50) || 'conversations'
  }.json`;

async function exportFile(title: string, id?: string): Promise<void> {
  download(fileName(title), await exportJson(id));
}

async function importFile(file: File): Promise<void> {
  failure.value = undefined;
  try {
    const n = await importJson(file);
    say(`${n} conversation${n === 1 ? '' : 's'} imported.`);
  } catch (error) {
    failure.value = failureOf(error);
  }
}

const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const nameOf = ({ title }: Info): string => title || 'Untitled';

/**
 * Renames a conversation. The title is stored while it is typed, so that leaving the page loses
 * nothing. Escape restores the old title.
 */
function RenameForm({ info, onDone }: { info: Info; onDone: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const before = useRef(info);
  useLayoutEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onDone();
      }}
    >
      <input
        ref={input}
        aria-label="Name of the conversation"
        defaultValue={before.current.title}
        onInput={(event) => void rename(info.id, event.currentTarget.value.trim())}
        onBlur={(event) => event.currentTarget.form?.requestSubmit()}
        onKeyDown={(event) => {
          if (!isEscape(event)) return;
          event.stopPropagation();
          const { title, named } = before.current;
          if (event.currentTarget.value !== title) void rename(info.id, named ? title : '');
          onDone();
        }}
      />
    </form>
  );
}

/** The conversation that was deleted last, until the page is left. */
const deleted = signal<Conversation | undefined>(undefined);

async function deleteConversation(info: Info, chosen: boolean): Promise<void> {
  if (chosen) newConversation();
  else if (!sidebarOpen.value) composerFocus.value++;
  deleted.value = await remove(info.id);
  if (sidebarOpen.value) onceShown(() => document.querySelector<HTMLElement>('.undo')?.focus());
}

function Deleted() {
  const conversation = deleted.value;
  if (!conversation) return null;
  return (
    <p class="row deleted-last" role="status">
      <span>“{nameOf(conversation.info.value)}” was deleted.</span>
      <button
        type="button"
        class="undo"
        onClick={() => {
          deleted.value = undefined;
          void bringBack(conversation).then(() => (location.hash = conversation.info.value.id));
        }}
      >
        Undo
      </button>
    </p>
  );
}

/** Arrows, Home and End move between conversations. */
function moveInList(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const links = [...event.currentTarget.querySelectorAll('a')];
  const at = links.findIndex((link) => link === event.target);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  links[to]?.focus();
}

/** Closes a menu and puts the focus back on its button. */
function closeMenu(menu: HTMLDetailsElement): void {
  menu.open = false;
  menu.querySelector('summary')?.focus();
}

function Item({ info }: { info: Info }) {
  const state = useSignal<'shown' | 'renamed' | 'deleted'>('shown');
  const link = useRef<HTMLAnchorElement>(null);
  const chosen = current.value?.info.value.id === info.id;
  const show = (): void => {
    state.value = 'shown';
    // Unless the user has moved the focus elsewhere.
    onceShown(() => isFocusLost() && link.current?.focus());
  };
  if (state.value === 'renamed')
    return (
      <li>
        <RenameForm info={info} onDone={show} />
      </li>
    );
  if (state.value === 'deleted')
    return (
      <li class="confirm">
        <ConfirmDelete what={nameOf(info)} onDelete={() => void deleteConversation(info, chosen)} onKeep={show} />
      </li>
    );
  return (
    <li class={chosen ? 'chosen' : ''}>
      <a ref={link} href={`#${info.id}`} aria-current={chosen ? 'page' : undefined} onClick={() => (sidebarOpen.value = false)}>
        <span>{nameOf(info)}</span>
        <small>{day.format(info.updated)}</small>
      </a>
      <details
        class="menu"
        onFocusOut={({ currentTarget: menu, relatedTarget }) => menu.contains(relatedTarget as Node) || (menu.open = false)}
        onKeyDown={(event) => {
          if (!isEscape(event) || !event.currentTarget.open) return;
          event.stopPropagation();
          closeMenu(event.currentTarget);
        }}
      >
        <summary aria-label={`More for ${nameOf(info)}`}>
          <Icon name="more" />
        </summary>
        <div>
          <button type="button" onClick={() => (state.value = 'renamed')}>
            Rename
          </button>
          <button
            type="button"
            onClick={(event) => {
              closeMenu(event.currentTarget.closest('details')!);
              void exportFile(nameOf(info), info.id);
            }}
          >
            Export
          </button>
          <button type="button" class="danger" onClick={() => (state.value = 'deleted')}>
            Delete
          </button>
        </div>
      </details>
    </li>
  );
}

export function Sidebar({ children }: { children?: ComponentChildren }) {
  const close = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => void (sidebarOpen.value && close.current?.focus()), [sidebarOpen.value]);
  return (
    <nav class={`sidebar ${sidebarOpen.value ? 'open' : ''}`} aria-label="Conversations" id="sidebar">
      <header>
        <Mark />
        <strong>quantlet</strong>
        <IconButton ref={close} icon="close" label="Close the list" class="narrow-only" onClick={() => (sidebarOpen.value = false)} />
      </header>
      <button type="button" class="new" aria-keyshortcuts="Control+Shift+O" onClick={newConversation}>
        <Icon name="plus" /> New chat
      </button>
      <ul class="conversations" tabindex={-1} onKeyDown={moveInList}>
        {list.value.map((info) => (
          <Item key={info.id} info={info} />
        ))}
      </ul>
      <Deleted />
      {notKept.value && <p class="hint">{notKept.value}</p>}
      <Problem failure={failure.value} />
      <footer>
        <div class="row">
          <button type="button" disabled={list.value.length === 0} onClick={() => void exportFile('conversations')}>
            Export all
          </button>
          <label class="button">
            Import
            <input
              type="file"
              accept=".json,application/json"
              onChange={({ currentTarget: input }) => {
                if (input.files?.[0]) void importFile(input.files[0]);
                input.value = '';
              }}
            />
          </label>
        </div>
        {children}
      </footer>
    </nav>
  );
}
