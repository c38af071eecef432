import { useChat } from '@ai-sdk/react';
import { useState } from 'react';
import { DownloadProgress } from './DownloadProgress.jsx';
import { Message } from './Message.jsx';

export function Chat({ transport, progress }) {
  const { messages, sendMessage, regenerate, stop, status, error } = useChat({ transport });
  const [text, setText] = useState('');
  const busy = status === 'submitted' || status === 'streaming';
  const submit = (event) => {
    event.preventDefault();
    if (busy || text.trim() === '') return;
    void sendMessage({ text });
    setText('');
  };
  return (
    <main data-status={status}>
      <h1>useChat without a server</h1>
      <div role="log" aria-live="polite">
        {messages.map((message) => (
          <Message key={message.id} message={message} />
        ))}
      </div>
      <DownloadProgress progress={progress} />
      {error && (
        <p role="alert">
          {error.message} <button onClick={() => regenerate()}>Try again</button>
        </p>
      )}
      <form onSubmit={submit}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} placeholder="Make the page lavender" />
        {busy ? (
          <button type="button" onClick={() => stop()}>
            Stop
          </button>
        ) : (
          <button>Send</button>
        )}
      </form>
    </main>
  );
}
