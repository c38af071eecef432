// Visits beyond a first conversation: files in and out, cut answers, very long chats, other hubs,
// unavailable servers.

import { readFileSync, writeFileSync } from 'node:fs';

/** Drops files on the page, as a hand would: `files` are [name, text] or [name, bytes]. */
export async function drop({ page }, files, upTo = 'drop') {
  await page.evaluate(
    (files, upTo) => {
      const dataTransfer = new DataTransfer();
      for (const [name, content] of files)
        dataTransfer.items.add(new File([typeof content === 'string' ? content : Uint8Array.from(content)], name));
      for (const type of ['dragenter', 'dragover', 'drop']) {
        document.querySelector('main').dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
        if (type === upTo) return;
      }
    },
    files,
    upTo,
  );
}

const messages = ({ page }) => page.$$eval('.message', (all) => all.length);
/**
 * State of the conversation list. On a phone it covers the page or is hidden; choosing or deleting
 * a conversation closes it.
 */
const listState = ({ page }) =>
  page.evaluate(() => (innerWidth >= 800 ? 'beside' : document.querySelector('.sidebar.open') ? 'open' : 'away'));
/** Waits for a list that a deletion closes. */
export const listClosed = ({ see }) => see('the list to be away', () => innerWidth >= 800 || !document.querySelector('.sidebar.open'));
export async function openList(hands) {
  if ((await listState(hands)) === 'away') await hands.press('Conversations');
}
async function closeList(hands) {
  if ((await listState(hands)) === 'open') await hands.press('Close the list');
}

export async function limitTokens({ page, press, type }, limit) {
  await press('Settings');
  await type('dialog input[placeholder="no limit"]', limit);
  if (limit === '') await page.keyboard.press('Backspace');
  await page.keyboard.press('Tab');
  await press('Close');
}

/**
 * A newly published page has a cache of its own. The previous one is kept, older ones are deleted.
 * `file`: the page on its host.
 */
export async function useUpdates({ page, fault, see }, file) {
  const html = readFileSync(file, 'utf8');
  let before;
  for (let i = 0; i < 4; i++) {
    writeFileSync(file, i === 3 ? html : html.replace('</body>', `<!-- ${i} --></body>`));
    await page.reload();
    await see(
      'a cache of the new page',
      async (before) => {
        const names = (await caches.keys()).filter((name) => name.startsWith('quantlet page'));
        return names.at(-1) !== before && names.length > 0;
      },
      before,
    );
    const names = await page.evaluate(async () => (await caches.keys()).filter((name) => name.startsWith('quantlet page')));
    if (names.length > 2) fault(`${names.length} caches of the page are kept, expected two at most`);
    before = names.at(-1);
  }
}

/** A cut answer, dropped files, conversations as files. */
export async function useFiles(hands) {
  const { page, fault, see, click, press, say, idle, last, look } = hands;
  await listClosed(hands); // the visit before ended with a deletion
  await limitTokens(hands, '9');
  await say('all');
  await idle();
  if (!/Cut at the limit of new tokens.*Continue/s.test(await last())) fault(`a cut answer is not marked: ${await last()}`);
  await look('cut');
  await limitTokens(hands, '');

  await drop(hands, [['numbers.csv', 'city,people\nOslo,700000\n']], 'dragover');
  await see('that files may be dropped', () => document.body.classList.contains('dropping'));
  await look('dropping');
  await drop(hands, [
    ['numbers.csv', 'city,people\nOslo,700000\n'],
    ['picture.png', [0x89, 0x50, 0x4e, 0x47, 0, 0xff]],
  ]);
  await see('the file', () => document.querySelector('.chips')?.textContent.includes('numbers.csv'));
  await see('why the other one is not there', () =>
    document.querySelector('.composer [role=alert]')?.textContent.includes('reads no pictures'),
  );
  await look('attached');
  await say('How many people?');
  await idle();
  if (!/How many people\?[^]*numbers\.csv:[^]*Oslo,700000/.test(await last())) fault(`the model did not get the file: ${await last()}`);
  if (await page.$('.chips')) fault('the file is still attached to the next message');
  await look('with-file');

  // Exports conversations to a file and imports them again.
  await hands.catchExports();
  const said = await messages(hands);
  await openList(hands);
  await press('Export all');
  const text = await hands.exported();
  if (JSON.parse(text).conversations[0].messages.length !== said) fault('the exported file does not hold the conversation');
  await click('.conversations .menu summary');
  await press('Delete');
  await press('Delete');
  await see('no conversation', () => document.querySelectorAll('.conversations li').length === 0);
  await listClosed(hands);
  await openList(hands);
  await hands.give('.sidebar input[type=file]', 'notes.json', '{"notes": []}');
  await see('why it cannot be imported', () => document.querySelector('.sidebar [role=alert]')?.textContent.includes('no conversations'));
  await look('import-error');
  await hands.give('.sidebar input[type=file]', 'conversations.json', text);
  await see('the conversation', () => document.querySelectorAll('.conversations li').length === 1);
  await look('imported');
  await click('.conversations a');
  await hands.many(said);
  await listClosed(hands);
  if (!/Oslo,700000/.test(await last())) fault('the imported conversation is another one');
  await openList(hands);
  await click('.conversations .menu summary');
  await press('Delete');
  await press('Delete');
  await see('no conversation again', () => document.querySelectorAll('.conversations li').length === 0);
  await listClosed(hands);
}

const FORMULA = {
  title: 'formulas',
  messages: [
    { role: 'user', content: 'What are the roots?' },
    {
      role: 'assistant',
      state: 'done',
      content:
        'Of $ax^2 + bx + c = 0$ they are\n\n$$\nx = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}\n$$\n\nand of a system\n\n\\[\\begin{aligned} a_1 x &= b_1 \\\\ a_2 y &= b_2 \\end{aligned}\\]\n\n' +
        'with $$\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}, \\quad f(x) = \\begin{cases} 1 & x > 0 \\\\ 0 & \\text{otherwise} \\end{cases}$$\n\n' +
        "\\[\\sum_{i=0}^{n} i = \\frac{n(n+1)}{2}, \\quad \\int_0^1 x^2 \\, dx = \\boxed{\\frac{1}{3}}, \\quad \\overline{AB}, \\vec{v}, \\mathcal{L}, f'\\]\n\n" +
        'It costs $5 and $6. This is none: $\\frac{$, and `$x$` is code. $\\href{javascript:alert(1)}{x}$ $\\text{<img src=x onerror=alert(1)>}$',
    },
  ],
};

/** Formulas of a conversation, typeset if the page has the typesetter. */
export async function useFormulas(hands) {
  const { page, fault, see, click, look } = hands;
  const file = JSON.stringify({ format: 'quantlet-conversations', version: 1, conversations: [FORMULA] });
  await openList(hands);
  await hands.give('.sidebar input[type=file]', 'formulas.json', file);
  await see('the conversation', () => document.querySelector('.conversations')?.textContent.includes('formulas'));
  await page.evaluate(() => [...document.querySelectorAll('.conversations a')].find((a) => a.textContent.includes('formulas')).click());
  await see('formulas', () => document.querySelectorAll('.markdown math').length === 6);
  await listClosed(hands);
  const found = await page.evaluate(() => {
    const answer = document.querySelector('.message.assistant');
    return {
      drawn: [...answer.querySelectorAll('math')].every((math) => math.getBoundingClientRect().height > 8),
      fraction: answer.querySelector('math mfrac')?.getBoundingClientRect().height ?? 0,
      tex: [...answer.querySelectorAll('.tex')].map(({ textContent }) => textContent),
      elements: answer.querySelectorAll('img, a, [style], [href]').length,
    };
  });
  if (!found.drawn || found.fraction < 20 || found.elements > 0 || found.tex.length !== 2) fault(`formulas: ${JSON.stringify(found)}`);
  await look('formulas');
  // Back to the previous conversation.
  await openList(hands);
  await page.evaluate(() => [...document.querySelectorAll('.conversations a')].find((a) => !a.textContent.includes('formulas')).click());
  await see('the conversation before', () => !document.querySelector('.markdown math'));
  await listClosed(hands);
}

/** Messages of a long chat. */
const MANY = 500;
/** Time limit for showing a conversation after it is chosen. */
const OPEN_MS = 4000;
/**
 * Minimum frames per second while 50 tokens per second arrive: half of what a screen shows, on a
 * machine with other work.
 */
const LEAST_FPS = 30;

/** @returns the measurements */
export async function useLong(hands) {
  const { page, fault, see, say, idle, look } = hands;
  const answers = [
    'A list:\n\n- one\n- two **bold**\n- `three`\n\nAnd a sentence that goes on for a while, so that it takes more than one line of the page.',
    'A table:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |',
    'Code:\n\n```js\nfor (const x of [1, 2, 3]) console.log(`number ${x}`);\n```',
  ];
  const conversation = {
    title: 'very long',
    messages: Array.from({ length: MANY }, (_, i) =>
      i % 2 === 0
        ? { role: 'user', content: `Question ${i / 2 + 1}` }
        : { role: 'assistant', content: answers[(i >> 1) % 3], state: 'done' },
    ),
  };
  await hands.give(
    '.sidebar input[type=file]',
    'long.json',
    JSON.stringify({ format: 'quantlet-conversations', version: 1, conversations: [conversation] }),
  );
  await see('the long chat in the list', () => document.querySelector('.conversations a')?.textContent.includes('very long'));
  await page.reload(); // read again from the database
  await openList(hands);
  await see('the list', () => document.querySelector('.conversations a')?.textContent.includes('very long'));
  const opening = await page.evaluate(async (many) => {
    const begin = performance.now();
    document.querySelector('.conversations a').click();
    while (document.querySelectorAll('.message').length < many) await new Promise((resolve) => requestAnimationFrame(resolve));
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - begin;
  }, MANY);
  if (opening > OPEN_MS) fault(`a chat of ${MANY} messages takes ${opening.toFixed(0)} ms to open, at most ${OPEN_MS} were expected`);
  await closeList(hands);
  await see('the last message in sight', () => {
    const log = document.querySelector('.log');
    return log.scrollHeight - log.scrollTop - log.clientHeight < 50;
  });
  await say('long');
  await see(
    'the first words',
    () => [...document.querySelectorAll('.message.assistant')].at(-1).querySelector('.markdown')?.textContent.length > 40,
  );
  const { fps, longest } = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const times = [performance.now()];
        const frame = (now) => {
          times.push(now);
          if (now - times[0] < 4000) return requestAnimationFrame(frame);
          const gaps = times.slice(2).map((time, i) => time - times[i + 1]);
          resolve({ fps: (1000 * gaps.length) / (times.at(-1) - times[1]), longest: Math.max(...gaps) });
        };
        requestAnimationFrame(frame);
      }),
  );
  if (!(await page.$('.message:last-child[aria-busy=true]'))) fault('the answer ended before its frames were counted');
  await look('very-long');
  if (fps < LEAST_FPS) fault(`${fps.toFixed(1)} frames a second while an answer comes into a chat of ${MANY} messages`);
  await page.keyboard.press('Escape');
  await idle();
  return `${MANY} messages: open after ${opening.toFixed(0)} ms, ${fps.toFixed(0)} frames/s while 50 tokens/s come in, the longest ${longest.toFixed(0)} ms`;
}

/** The page can be installed as an app, and opens while its server is unavailable. */
export async function useAway({ page, fault, see, look }, origin, stopServer) {
  const manifest = await (await fetch(new URL('manifest.webmanifest', `${origin}/`))).json();
  for (const field of ['name', 'start_url', 'display', 'icons']) if (!manifest[field]) fault(`the manifest has no ${field}`);
  for (const { src } of manifest.icons) {
    const isPicture = (src) =>
      new Promise((resolve) => Object.assign(new Image(), { src, onload: () => resolve(true), onerror: () => resolve(false) }));
    if (!(await page.evaluate(isPicture, src))) fault(`${src} is no picture`);
  }
  await see('the service worker', () => navigator.serviceWorker.controller !== null);
  await page.reload();
  await see('the page in the cache', async () => {
    const cache = await caches.open('quantlet served page');
    return (await cache.keys()).length === 1;
  });
  await stopServer();
  await page.goto(`${origin}/`);
  await see('the page without its server', () => document.querySelector('main > .problem')?.textContent.includes('cannot be reached'));
  await see('its conversations', () => document.querySelectorAll('.conversations li').length > 0);
  await look('away');
}

/** The test's own hub with one repository: files of serve(), and answers of its API. */
export function hub(bytes) {
  const json = (value) => ({ type: 'application/json', body: JSON.stringify(value) });
  return {
    '/hub/api/models': (url) =>
      json(
        [
          { id: 'tester/tiny-GGUF', downloads: 1234, gated: false },
          { id: 'tester/secret-GGUF', downloads: 5, gated: 'manual' },
        ].filter(({ id }) => id.includes(url.searchParams.get('search'))),
      ),
    '/hub/api/models/tester/tiny-GGUF/tree/main': () =>
      json([
        { type: 'file', path: 'README.md', size: 10 },
        { type: 'file', path: 'tiny-Q4_0.gguf', size: bytes },
      ]),
  };
}

/** Searches a hub other than the default one, and loads its model. */
export async function useHub({ page, fault, see, click, press, type, look }, origin) {
  await page.$eval(
    'head',
    (head, content) => head.append(Object.assign(document.createElement('meta'), { name: 'quantlet:hub', content })),
    `${origin}/hub/`,
  );
  await click('.model-button');
  await click('#tab-models');
  await type('dialog input[type=search]', 'nothing of this name');
  await page.keyboard.press('Enter');
  await see('that nothing was found', () => document.querySelector('dialog[open]').textContent.includes('Nothing was found'));
  await type('dialog input[type=search]', 'tiny');
  await page.keyboard.press('Enter');
  await see('the repository', () => document.querySelector('dialog[open]').textContent.includes('tester/tiny-GGUF'));
  if (await page.$eval('dialog[open]', (dialog) => dialog.textContent.includes('secret'))) fault('a gated repository is offered');
  await look('hub-search');
  await press('Files of tester/tiny-GGUF');
  await see('its model', () => document.querySelector('dialog[open]').textContent.includes('tiny-Q4_0'));
  await look('hub-files');
  await press('Load tiny-Q4_0');
  await see(
    'the model of the hub',
    () => document.querySelector('.model-button').textContent.includes('tiny-Q4_0') && !document.querySelector('dialog[open]'),
  );
}
