/** Function calls of an answer, and the fields for their results. */
import { useSignal } from '@preact/signals';
import { indentedJson } from '../../src/chat/exact-json.ts';
import { giveResults } from './answer.ts';
import type { Backend, Call } from './backend.ts';
import { Code } from './code.tsx';
import type { Conversation } from './conversations.ts';
import { readDraft, writeDraft } from './drafts.ts';
import { codeHtml } from './markdown.ts';
import { Icon, composerFocus } from './ui.tsx';

export function CallView({ call }: { call: Call }) {
  const text = indentedJson(call.arguments);
  return (
    <div class="call">
      <p>
        <Icon name="cpu" /> Calls <code>{call.name}</code>
      </p>
      <Code code={text} language="json" html={codeHtml(text, 'json')} />
    </div>
  );
}

/**
 * Fields for the results of calls. The page runs no functions: people run them and type in the
 * results, and the model continues from these.
 */
export function Results({
  backend,
  conversation,
  id,
  calls,
}: {
  backend: Backend;
  conversation: Conversation;
  /** Id of the message with the calls. */
  id: string;
  calls: readonly Call[];
}) {
  const draftKey = (i: number): string => `result ${id} ${i}`;
  const results = useSignal<readonly string[]>(calls.map((_, i) => readDraft(draftKey(i))));
  const set = (i: number, text: string): void => {
    results.value = results.value.with(i, text);
    writeDraft(draftKey(i), text);
  };
  return (
    <form
      class="results"
      onSubmit={(event) => {
        event.preventDefault();
        calls.forEach((_, i) => writeDraft(draftKey(i), ''));
        void giveResults(
          backend,
          conversation,
          calls.map(({ id }, i) => ({ callId: id, content: results.value[i] })),
        );
        composerFocus.value++;
      }}
    >
      {calls.map((call, i) => (
        <label class="field" key={call.id}>
          <span>
            What <code>{call.name}</code> gave
          </span>
          <textarea rows={2} required value={results.value[i]} onInput={(event) => set(i, event.currentTarget.value)} />
        </label>
      ))}
      <button type="submit" class="primary">
        Go on with the result
      </button>
    </form>
  );
}
