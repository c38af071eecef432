/** The list of conversations. */
import { signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { failureOf, type Failure } from './backend.ts';
import { current, exportJson, importJson, list, notKept, remove, rename, type Info } from './conversations.ts';
import { newConversation } from './route.ts';
import { say } from './status.ts';
import { Icon, IconButton, Mark, Problem, download, sidebarOpen } from './ui.tsx';

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

function Item({ info }: { info: Info }) {
  const state = useSignal<'shown' | 'renamed' | 'deleted'>('shown');
  const input = useRef<HTMLInputElement>(null);
  const chosen = current.value?.info.value.id === info.id;
  useEffect(() => {
    if (state.value !== 'renamed') return;
    input.current?.focus();
    input.current?.select();
  }, [state.value]);
  if (state.value === 'renamed')
    return (
      <li>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            state.value = 'shown';
            void rename(info.id, input.current!.value.trim());
          }}
        >
          <input
            ref={input}
            aria-label="Name of the conversation"
            defaultValue={info.title}
            onBlur={(event) => event.currentTarget.form?.requestSubmit()}
            onKeyDown={(event) => {
              if (event.key !== 'Escape') return;
              event.stopPropagation();
              event.currentTarget.value = info.title;
              state.value = 'shown';
            }}
          />
        </form>
      </li>
    );
  if (state.value === 'deleted')
    return (
      <li class="confirm">
        <span role="alert">Delete “{nameOf(info)}”?</span>
        <button
          type="button"
          class="danger"
          onClick={() => {
            if (chosen) newConversation();
            void remove(info.id);
          }}
        >
          Delete
        </button>
        <button type="button" onClick={() => (state.value = 'shown')}>
          Keep
        </button>
      </li>
    );
  return (
    <li class={chosen ? 'chosen' : ''}>
      <a href={`#${info.id}`} aria-current={chosen ? 'page' : undefined} onClick={() => (sidebarOpen.value = false)}>
        <span>{nameOf(info)}</span>
        <small>{day.format(info.updated)}</small>
      </a>
      <details
        class="menu"
        onFocusOut={({ currentTarget: menu, relatedTarget }) => menu.contains(relatedTarget as Node) || (menu.open = false)}
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
