/** The list of conversations. */
import { signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { failureOf, type Failure } from './backend.ts';
import { current, list, notKept, remove, rename } from './conversations.ts';
import type { Info } from './database.ts';
import { isEscape } from './keys.ts';
import { newConversation } from './route.ts';
import { say } from './status.ts';
import { exportJson, importJson } from './transfer.ts';
import { Icon, IconButton, Mark, Problem, composerFocus, download, sidebarOpen } from './ui.tsx';

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

function RenameForm({ info, onDone }: { info: Info; onDone: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onDone();
        void rename(info.id, input.current!.value.trim());
      }}
    >
      <input
        ref={input}
        aria-label="Name of the conversation"
        defaultValue={info.title}
        onBlur={(event) => event.currentTarget.form?.requestSubmit()}
        onKeyDown={(event) => {
          if (!isEscape(event)) return;
          event.stopPropagation();
          event.currentTarget.value = info.title;
          onDone();
        }}
      />
    </form>
  );
}

function DeleteForm({ info, chosen, onKeep }: { info: Info; chosen: boolean; onKeep: () => void }) {
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), []);
  return (
    <>
      <span role="alert">Delete “{nameOf(info)}”?</span>
      <button
        type="button"
        class="danger"
        onClick={() => {
          if (chosen) newConversation();
          void remove(info.id);
          composerFocus.value++;
        }}
      >
        Delete
      </button>
      <button type="button" ref={keep} onClick={onKeep}>
        Keep
      </button>
    </>
  );
}

/** Closes a menu, and puts the focus back on what opens it. */
function closeMenu(event: KeyboardEvent & { currentTarget: HTMLDetailsElement }): void {
  const menu = event.currentTarget;
  if (!isEscape(event) || !menu.open) return;
  event.stopPropagation();
  menu.open = false;
  menu.querySelector('summary')?.focus();
}

function Item({ info }: { info: Info }) {
  const state = useSignal<'shown' | 'renamed' | 'deleted'>('shown');
  const link = useRef<HTMLAnchorElement>(null);
  const chosen = current.value?.info.value.id === info.id;
  const show = (): void => {
    state.value = 'shown';
    // Unless somebody has gone elsewhere.
    requestAnimationFrame(() => document.activeElement === document.body && link.current?.focus());
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
        <DeleteForm info={info} chosen={chosen} onKeep={show} />
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
        onKeyDown={closeMenu}
      >
        <summary aria-label={`More for ${nameOf(info)}`}>
          <Icon name="more" />
        </summary>
        <div>
          <button type="button" onClick={() => (state.value = 'renamed')}>
            Rename
          </button>
          <button type="button" onClick={() => void exportFile(nameOf(info), info.id)}>
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
  return (
    <nav class={`sidebar ${sidebarOpen.value ? 'open' : ''}`} aria-label="Conversations" id="sidebar">
      <header>
        <Mark />
        <strong>quantlet</strong>
        <IconButton icon="close" label="Close the list" class="narrow-only" onClick={() => (sidebarOpen.value = false)} />
      </header>
      <button type="button" class="new" aria-keyshortcuts="Control+Shift+O" onClick={newConversation}>
        <Icon name="plus" /> New chat
      </button>
      <ul class="conversations" tabindex={-1}>
        {list.value.map((info) => (
          <Item key={info.id} info={info} />
        ))}
      </ul>
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
