'use client';
import { useState } from 'react';

/** Two stories side by side: one computed by the server's route, one in the browser. */
export default function Page() {
  const [server, setServer] = useState('');
  const [browser, setBrowser] = useState('');

  async function onServer() {
    setServer('');
    const response = await fetch('/api/story?n=60');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part; !(part = await reader.read()).done;) setServer((text) => text + part.value);
  }

  async function inBrowser() {
    setBrowser('');
    const { loadModel } = await import('quantlet');
    const model = await loadModel('/api/model');
    for await (const { text } of model.generate('Once upon a time', { maxTokens: 60, temperature: 0 })) setBrowser((story) => story + text);
    await model.dispose();
  }

  return (
    <main>
      <h1>Stories</h1>
      <button onClick={onServer}>Tell one on the server</button>
      <p id="server" aria-live="polite">
        {server}
      </p>
      <button onClick={inBrowser}>Tell one in this browser</button>
      <p id="browser" aria-live="polite">
        {browser}
      </p>
    </main>
  );
}
