/** The page that a server serves. */
import { useEffect, useRef } from 'preact/hooks';
import { ModelSelect, start } from './app.tsx';
import { nameOnPage } from './backend.ts';
import { typesetBy } from './math.ts';
import { apiKey, createServedBackend } from './served.ts';
import { typeset } from './small-tex.ts';
import { Field } from './ui.tsx';

const backend = createServedBackend();
typesetBy(() => Promise.resolve(typeset));
nameOnPage({ contextLength: 'context (-c of quantlet serve)' });

// The service worker opens the page with its conversations even if the server is down. Vite's
// development server has no such file.
if (isSecureContext && document.querySelector('link[rel=manifest]'))
  void navigator.serviceWorker?.register('./service-worker.js').catch(() => {});

/**
 * Field for the API key. The key is stored while it is typed and tried when the field loses the
 * focus or the dialog closes.
 */
function KeyField() {
  const tried = useRef(apiKey.value);
  const attempt = (): void => {
    if (tried.current === apiKey.value) return;
    tried.current = apiKey.value;
    void backend.refresh();
  };
  useEffect(() => attempt, []);
  return (
    <Field label="API key" hint="If the server needs one. It is kept until this tab is closed.">
      <input
        type="password"
        autocomplete="off"
        value={apiKey.value}
        onInput={(event) => (apiKey.value = event.currentTarget.value)}
        onChange={attempt}
      />
    </Field>
  );
}

void backend.refresh();
void start({
  backend,
  ModelChooser: ({ conversation }) => <ModelSelect backend={backend} conversation={conversation} />,
  Settings: () => (
    <fieldset>
      <legend>Server</legend>
      <KeyField />
    </fieldset>
  ),
  Welcome: ({ conversation }) => (
    <div class="welcome">
      <h2>{conversation.info.value.settings.mode === 'text' ? 'How does the text begin?' : 'What would you like to talk about?'}</h2>
      {backend.models.value[0]?.chat === false && <p>This model has no chat template: it continues what you begin.</p>}
      <p>The model runs on the server that this page came from. Conversations are kept in this browser only.</p>
    </div>
  ),
});
