/** The tab for loading a model: suggestions, the hub, files, addresses. */
import { signal, useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { failureOf, nameOnPage, type Failure } from '../backend.ts';
import { readDraft, writeDraft } from '../drafts.ts';
import { BoundedNumber } from '../number-field.tsx';
import { bytes, count } from '../numbers.ts';
import { Problem, isFocusLost, onceShown } from '../ui.tsx';
import { memoryFor, nameOf, tooLarge } from './device.ts';
import { contextLength } from './engine.ts';
import { SUGGESTIONS, addressOf, filesOf, hubHost, search, type Found, type RepoFiles } from './hub.ts';
import { SHIPPED, choose, chooseFiles } from './loading-bar.tsx';

const CONTEXT = 'Tokens of a conversation at most';
nameOnPage({ contextLength: `“${CONTEXT}” (under Models)`, chatTemplate: 'the chat template', mmproj: 'the projector' });

function Choice({ title, about, size, onLoad }: { title: string; about?: ComponentChildren; size: number; onLoad: () => void }) {
  const warning = tooLarge(size);
  return (
    <li class="choice">
      <div>
        <strong>{title}</strong>
        {about && <p>{about}</p>}
        <small>
          {bytes(size)} to download, about {bytes(memoryFor(size))} of memory
          {warning && <em class="warning">: {warning}</em>}
        </small>
      </div>
      <button type="button" aria-label={`Load ${title}`} onClick={onLoad}>
        Load
      </button>
    </li>
  );
}

/** A text stored while it is typed, because the dialog may be closed or the page left. */
const kept = (key: string): { text: Signal<string>; set(value: string): void } => {
  const text = signal(readDraft(key));
  return {
    text,
    set(value) {
      text.value = value;
      writeDraft(key, value);
    },
  };
};
const query = kept('hub search');
const address = kept('model address');
const projectorAddress = kept('projector address');
const found = signal<readonly Found[] | undefined>(undefined);
const opened = signal<{ repo: string; files: RepoFiles } | undefined>(undefined);

/**
 * Runs one hub action at a time and reports its failure. `shown` runs after the page shows the
 * result.
 */
function useAttempt(shown: () => void) {
  const busy = useSignal(false);
  const failure = useSignal<Failure | undefined>(undefined);
  const attempt = async (action: () => Promise<void>): Promise<void> => {
    if (busy.value) return;
    busy.value = true;
    failure.value = undefined;
    try {
      await action();
    } catch (error) {
      failure.value = failureOf(error);
    }
    busy.value = false;
    onceShown(shown);
  };
  return { busy, failure, attempt };
}

/** Models in a repository of the hub. Its smallest projector is loaded with each of them. */
function RepositoryFiles({ repo, files, onBack }: { repo: string; files: RepoFiles; onBack: (() => void) | undefined }) {
  const { models, projectors } = files;
  const projector = projectors.at(0);
  return (
    <>
      <p class="row">
        <strong>{repo}</strong>
        {onBack && (
          <button type="button" class="back" onClick={onBack}>
            Back
          </button>
        )}
      </p>
      {models.length === 0 && <p class="hint">There is no GGUF model in it.</p>}
      <ul class="choices">
        {models.map(({ path, bytes: size }) => (
          <Choice
            key={path}
            title={nameOf(path)}
            about={projector && `Reads pictures, with ${nameOf(projector.path)}.`}
            size={size + (projector?.bytes ?? 0)}
            onLoad={() =>
              void choose(addressOf(repo, path), nameOf(path).replace(/-00001-of-\d{5}$/, ''), projector && addressOf(repo, projector.path))
            }
          />
        ))}
      </ul>
    </>
  );
}

/** Repositories found by a search. */
function FoundRepositories({ list, busy, onOpen }: { list: readonly Found[]; busy: boolean; onOpen: (repo: string) => void }) {
  return (
    <ul class="choices">
      {list.length === 0 && <li class="hint">Nothing was found.</li>}
      {list.map(({ repo, downloads }) => (
        <li class="choice" key={repo}>
          <div>
            <strong>{repo}</strong>
            <small>{count(downloads)} downloads</small>
          </div>
          <button type="button" aria-label={`Files of ${repo}`} aria-disabled={busy} onClick={() => onOpen(repo)}>
            Files
          </button>
        </li>
      ))}
    </ul>
  );
}

function HubSearch() {
  const section = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const { busy, failure, attempt } = useAttempt(() => {
    // The list of repositories and the list of files replace each other, so the focus may be lost.
    if (isFocusLost()) (section.current?.querySelector<HTMLElement>('.back') ?? field.current)?.focus();
  });
  const back = (): void => {
    opened.value = undefined;
    onceShown(() => field.current?.focus());
  };
  // Results are below the field: scroll to them.
  useEffect(() => {
    if (found.value ?? opened.value) section.current?.scrollIntoView({ block: 'start' });
  }, [found.value, opened.value]);
  const open = (repo: string): Promise<void> => attempt(async () => void (opened.value = { repo, files: await filesOf(repo) }));
  return (
    <section ref={section}>
      <h3>From the Hugging Face hub</h3>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          opened.value = undefined;
          const asked = query.text.value.trim();
          if (/^[\w.-]+\/[\w.-]+$/.test(asked)) void open(asked);
          else void attempt(async () => void (found.value = await search(asked)));
        }}
      >
        <input
          ref={field}
          type="search"
          class="grow"
          required
          aria-label="Search the hub"
          placeholder="A name, or OWNER/REPO"
          value={query.text.value}
          onInput={(event) => query.set(event.currentTarget.value)}
        />
        <button type="submit" aria-disabled={busy.value}>
          Search
        </button>
      </form>
      <p class="hint">
        The page talks to {hubHost()} only when you search here or load one of these models, and to no other host by itself.
      </p>
      <Problem failure={failure.value} />
      {opened.value ? (
        <RepositoryFiles {...opened.value} onBack={found.value && back} />
      ) : (
        found.value && <FoundRepositories list={found.value} busy={busy.value} onOpen={(repo) => void open(repo)} />
      )}
    </section>
  );
}

export function ModelsTab() {
  return (
    <>
      <section>
        <h3>To begin with</h3>
        <ul class="choices">
          <Choice
            title={SHIPPED.name}
            about="Here in a moment; writes children’s stories, and cannot chat."
            size={SHIPPED.bytes}
            onLoad={() => void choose(SHIPPED.url, SHIPPED.name)}
          />
          {SUGGESTIONS.map((one) => (
            <Choice
              key={one.repo}
              title={one.title}
              about={one.about}
              size={one.bytes + (one.projector?.bytes ?? 0)}
              onLoad={() => void choose(addressOf(one.repo, one.file), one.title, one.projector && addressOf(one.repo, one.projector.path))}
            />
          ))}
        </ul>
      </section>
      <HubSearch />
      <section>
        <h3>A file</h3>
        <div class="row">
          <label class="button">
            Choose a GGUF file
            <input
              type="file"
              multiple
              accept=".gguf"
              onChange={({ currentTarget: input }) => {
                if (input.files?.length) void chooseFiles([...input.files]);
                input.value = '';
              }}
            />
          </label>
          <form
            class="row grow"
            onSubmit={(event) => {
              event.preventDefault();
              void choose(address.text.value, nameOf(address.text.value), projectorAddress.text.value || undefined);
            }}
          >
            <input
              type="url"
              class="grow"
              required
              aria-label="Address of a GGUF file"
              placeholder="or its address: https://…"
              value={address.text.value}
              onInput={(event) => address.set(event.currentTarget.value)}
            />
            <input
              type="url"
              class="grow"
              aria-label="Address of its projector, if it reads pictures"
              placeholder="and its projector’s, to read pictures"
              value={projectorAddress.text.value}
              onInput={(event) => projectorAddress.set(event.currentTarget.value)}
            />
            <button type="submit">Load</button>
          </form>
        </div>
        <p class="hint">
          For a split model, choose all parts at once, or give the address of the first part. A model that reads pictures has a second file,
          its projector (mmproj): choose both at once.
        </p>
        <BoundedNumber
          label={CONTEXT}
          hint="More take more memory. Empty: what the model was made for, but at most 4096."
          bounds={{ least: 16, most: 2 ** 31 - 1, integer: true }}
          placeholder="4096"
          value={contextLength.value}
          onChange={(value) => (contextLength.value = value)}
        />
      </section>
    </>
  );
}
