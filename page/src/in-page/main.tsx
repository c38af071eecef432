/** The page that runs the model itself. It works on any static host. */
import { start } from '../app.tsx';
import type { Conversation } from '../conversations.ts';
import { typesetBy } from '../math.ts';
import { lastAddress, backend, loaded, loading } from './engine.ts';
import { LoadingBar, SHIPPED, choose, chooseFiles, modelsOpen } from './loading-bar.tsx';
import { ModelButton, ModelsDialog } from './models-view.tsx';
import './in-page.css';

function Welcome({ conversation }: { conversation: Conversation }) {
  if (loaded.value) {
    const { mode } = conversation.info.value.settings;
    return (
      <div class="welcome">
        <h2>{mode === 'text' ? 'How does the text begin?' : 'What would you like to talk about?'}</h2>
        <p>
          {loaded.value.name} runs in this page, on your own processor. Nothing you write leaves it.
          {mode === 'text' ? ' This model was not taught to chat: it continues what you begin.' : ''}
        </p>
        {mode === 'text' && conversation.messages.value.length === 0 && <p class="hint">“Once upon a time” is a good beginning.</p>}
      </div>
    );
  }
  const last = lastAddress.get();
  return (
    <div class="welcome">
      <h2>Language models in this page</h2>
      <p>
        They are computed here, on your own processor. Nothing you write leaves this page, and once a model has been loaded it works without
        a network.
      </p>
      {!loading.value && (
        <div class="row">
          {last && last.url !== SHIPPED.url && (
            <button type="button" class="primary" onClick={() => void choose(last.url, last.name, last.projector)}>
              {last.name} again
            </button>
          )}
          <button
            type="button"
            class={last && last.url !== SHIPPED.url ? '' : 'primary'}
            onClick={() => void choose(SHIPPED.url, SHIPPED.name)}
          >
            Try the small one, 1.6 MB
          </button>
          <button type="button" onClick={() => (modelsOpen.value = true)}>
            Choose a model
          </button>
        </div>
      )}
      {!modelsOpen.value && <LoadingBar />}
    </div>
  );
}

typesetBy(async () => (await import('./tex.ts')).typeset);

void start({
  backend,
  ModelChooser: ModelButton,
  Welcome,
  Dialogs: ModelsDialog,
  takeFiles(files) {
    const models = files.filter(({ name }) => /\.gguf$/i.test(name));
    if (models.length === 0) return false;
    modelsOpen.value = true;
    void chooseFiles(models);
    return true;
  },
});
