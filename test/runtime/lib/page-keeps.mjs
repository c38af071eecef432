// The page keeps what visitors typed, edited and chose; a full context; conversations of older
// pages.
import { COMPOSER, keyboardOf } from './page-keyboard.mjs';

const attach = ({ give }, name, text) => give('.composer input[type=file]', name, text);

/**
 * Drafts of each conversation, of a new one, and of an edit: they survive everything but sending.
 * Uses only the keyboard.
 */
export async function useDrafts(hands) {
  const { page, fault, see, look } = hands;
  const { use, press, write, focused, atComposer, typed, ...keys } = keyboardOf(hands);
  const newChat = async () => {
    await keys.newChat();
    await hands.many(0);
  };
  await atComposer('loading');
  await write('draft of a new chat');
  await page.reload();
  await typed('draft of a new chat');
  await atComposer('loading again');
  await see('the model', () => document.querySelector('.model-name')?.textContent === 'scripted');
  await press('Enter');
  await hands.answered('You said: draft of a new chat');
  await typed('');
  await write('not sent');
  await attach(hands, 'pic.txt', 'a text');
  await attach(hands, 'pic.dat', '\0');
  await see('the name of a file as it is', () =>
    /The file pic\.dat is not text/.test(document.querySelector('.composer [role=alert]')?.textContent),
  );
  await newChat();
  await atComposer('a new chat');
  await typed('');
  if (await page.$('.chips')) fault('a file of another conversation is attached to a new chat');
  await write('another');
  await use('draft of a new chat');
  await typed('not sent');
  await see('the attached file', () => document.querySelector('.chips')?.textContent.includes('pic.txt'));
  await atComposer('an opened conversation');
  await page.reload();
  await typed('not sent');
  await see('the attached file', () => document.querySelector('.chips')?.textContent.includes('pic.txt'));
  await newChat();
  await typed('another');
  await use('draft of a new chat');
  await typed('not sent');

  // An edit: Escape asks before it discards, a reload keeps it, and Enter sends it.
  await use('Edit', '.message.user');
  await focused('the edit', '.editor textarea');
  await write(' and more');
  await press('Escape');
  await see('a question', () => document.querySelector('.editor [role=alert]')?.textContent.includes('Discard'));
  await look('discard');
  await press('Escape');
  await focused('the edit again', '.editor textarea');
  await page.reload();
  await see('the edit after loading', () => document.querySelector('.editor textarea')?.value === 'draft of a new chat and more');
  await page.focus('.editor textarea');
  await look('editing');
  await press('Escape');
  await use('Discard');
  await see('no edit', () => !document.querySelector('.editor'));
  await focused('what began the edit', '[aria-label=Edit]');
  await press('Enter');
  await focused('the edit once more', '.editor textarea');
  await write('!');
  await press('Enter');
  await hands.answered('You said: draft of a new chat!');
  await see('the new title', () => document.title.startsWith('draft of a new chat!'));
  await typed('not sent');
  await useComposition(hands);
}

/** Enter that ends a composition sends nothing, in a message and in an edit. */
async function useComposition(hands) {
  const { page, fault } = hands;
  const before = await page.$$eval('.message', (all) => all.length);
  for (const selector of [COMPOSER, '.editor textarea']) {
    if (selector !== COMPOSER) await keyboardOf(hands).use('Edit', '.message.user');
    await page.$eval(selector, (area) => {
      area.focus();
      for (const how of [{ isComposing: true }, { keyCode: 229 }])
        for (const key of ['Enter', 'Escape']) {
          const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...how });
          if (how.keyCode) Object.defineProperty(event, 'keyCode', { value: 229 });
          area.dispatchEvent(event);
        }
    });
    if (
      !(await page.$(selector)) ||
      (await page.$('.editor [role=alert]')) ||
      (await page.$$eval('.message', (all) => all.length)) !== before
    )
      fault(`a key of a composition did something in ${selector}`);
  }
  await page.keyboard.press('Escape');
}

const texts = ({ page }) => page.$$eval('.message .bubble, .message .markdown', (all) => all.map(({ textContent }) => textContent.trim()));

/**
 * Versions of a message, of an answer, and of what follows them: chosen by keyboard, exported and
 * imported completely.
 */
export async function useVersions(hands) {
  const { page, fault, see, press, say, look } = hands;
  const expectTexts = async (what, wanted) => {
    await hands.many(wanted.length);
    const found = await texts(hands);
    if (JSON.stringify(found) !== JSON.stringify(wanted)) fault(`${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(wanted)}`);
  };
  const wide = await page.evaluate(() => innerWidth >= 800);
  if (!wide) await press('Conversations');
  await press('New chat');
  await hands.many(0);
  for (const text of ['first', 'second']) {
    await say(text);
    await hands.answered(`You said: ${text}`);
  }
  await hands.click('.message:last-child [aria-label="Answer again"]');
  await see('a second version', () => document.querySelector('.message:last-child .versions')?.textContent === '2 / 2');
  await hands.answered('You said: second');
  await hands.click('.message.user [aria-label=Edit]');
  await hands.type('.editor textarea', 'poem');
  await page.keyboard.press('Enter');
  await hands.answered('Roses');
  await see('the title of the version', () => document.title.startsWith('poem'));
  const lines = await page.$$eval('.markdown br', (all) => all.length);
  if (lines !== 2) fault(`a poem has ${lines} line ends within its two paragraphs, expected 2`);
  await look('versions');
  // An edited answer keeps what follows.
  await say('after');
  await hands.answered('You said: after');
  await hands.click('.message.assistant [aria-label=Edit]');
  await hands.type('.editor textarea', 'Violets');
  await page.keyboard.press('Enter');
  await expectTexts('a changed answer', ['poem', 'Violets', 'after', 'You said: after']);
  await page.reload();
  await expectTexts('after loading', ['poem', 'Violets', 'after', 'You said: after']);
  await page.focus(COMPOSER);
  await keyboardOf(hands).use('Version before', '.message.user');
  const first = ['first', 'You said: first', 'second', 'You said: second'];
  await expectTexts('the first version', first);
  await see('its title', () => document.title.startsWith('first'));
  await look('first-version');

  // An exported file has them all.
  await hands.catchExports();
  if (!wide) await press('Conversations');
  await hands.click('.conversations .chosen .menu summary');
  await press('Export');
  const file = await hands.exported();
  await page.reload();
  if (!wide) await press('Conversations');
  await see('the list', () => document.querySelector('.sidebar input[type=file]') !== null);
  await hands.give('.sidebar input[type=file]', 'conversations.json', file.replace('"title": "first"', '"title": "imported"'));
  await see('the imported conversation', () => document.querySelector('.conversations')?.textContent.includes('imported'));
  await page.evaluate(() => [...document.querySelectorAll('.conversations a')].find((a) => a.textContent.includes('imported')).click());
  await see('it', () => document.title.startsWith('imported'));
  await expectTexts('imported', first);
  await hands.click('[aria-label="Version after"]');
  await expectTexts('imported, the second version', ['poem', 'Violets', 'after', 'You said: after']);
  if ((await page.$$eval('.versions', (all) => all.length)) !== 2) fault('versions were lost on their way through a file');
}

/** A conversation that no longer fits continues without its oldest turns, and says so. */
export async function useFull(hands) {
  const { page, fault, see, press, say, look } = hands;
  const wide = await page.evaluate(() => innerWidth >= 800);
  if (!wide) await press('Conversations');
  await press('New chat');
  await hands.many(0);
  const long = 'word and another '.repeat(4000);
  await attach(hands, 'long.txt', long);
  await see('the file', () => document.querySelector('.chips') !== null);
  await say('oldest');
  await hands.answered('That was a long text.');
  await say('middle');
  await hands.answered('You said: middle');
  await attach(hands, 'long.txt', long);
  await see('the file', () => document.querySelector('.chips') !== null);
  await say('newest');
  await see(
    'that the context is full',
    () => document.querySelector('.message:last-child [role=alert] code')?.textContent === 'context_length_exceeded',
  );
  await look('full');
  await press('Leave out the oldest messages');
  await hands.answered('The context is full: the model did not see the oldest 2 messages.');
  if (!/That was a long text/.test(await hands.last())) fault(`without its oldest turns: ${(await hands.last()).slice(0, 100)}`);
  if (await page.$('.message [role=alert]')) fault('an error is left of what was answered');
  await hands.many(6);
  await look('left-out');

  // A file that alone is larger than the context: nothing that could be left out would help.
  await attach(hands, 'longer.txt', long.repeat(3));
  await see('the file', () => document.querySelector('.chips') !== null);
  await say('too long');
  await see('what can be done', () =>
    /The last message alone has [\d,]+ tokens, but the context has room for 32,768.* Shorten the message or its files, or start the server/.test(
      document.querySelector('.message:last-child [role=alert]')?.textContent,
    ),
  );
  if (/Leave out/.test(await page.$eval('.message:last-child', ({ textContent }) => textContent)))
    fault('to leave out the oldest is offered where it does not help');
  await look('too-long');
}

/** Values out of bounds are refused, and the settings say so. */
export async function useBounds(hands) {
  const { page, fault, see, press, type, say, look } = hands;
  await press('Settings');
  await type('dialog input[placeholder="no limit"]', '-7');
  await see('why it is not taken', () =>
    /Not taken: expected an integer of at least 1/.test(document.querySelector('dialog .wrong')?.textContent),
  );
  await look('out-of-bounds');
  await page.keyboard.press('Escape');
  await say('hello');
  await hands.answered('You said: hello');
  await press('Settings');
  if ((await page.$eval('dialog input[placeholder="no limit"]', ({ value }) => value)) !== '') fault('a setting took -7 tokens');
  for (const value of ['0.25', '-1']) {
    const selector = `dialog input[placeholder="${value === '-1' ? '-1' : '0.8'}"]`;
    await type(selector, value);
    if ((await page.$eval(selector, (input) => input.value)) !== value) fault(`${value} cannot be typed into the settings`);
  }
  await press('Close');
}

/**
 * Conversations stored by the first version of the page, one record each, appear in this one.
 * `address`: one of the same origin that does not serve the page.
 */
export async function useMigration(hands, address) {
  const { page, see } = hands;
  const other = await page.browserContext().newPage();
  await page.goto('about:blank');
  await other.goto(address);
  await other.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const removing = indexedDB.deleteDatabase('quantlet');
        removing.onerror = reject;
        removing.onsuccess = () => {
          const opening = indexedDB.open('quantlet', 1);
          opening.onerror = reject;
          opening.onupgradeneeded = () => {
            for (const name of ['conversations', 'messages']) opening.result.createObjectStore(name, { keyPath: 'id' });
          };
          opening.onsuccess = () => {
            const all = opening.result.transaction(['conversations', 'messages'], 'readwrite');
            const info = { created: 1e12, updated: 2e12, settings: { mode: 'chat', system: 'Be old.', numbers: {} } };
            all.objectStore('conversations').put({ ...info, id: 'old', title: 'a given name' });
            all.objectStore('conversations').put({ ...info, id: 'older', title: 'begins so', updated: 1.5e12 });
            const answer = { role: 'assistant', content: 'an **old** answer' };
            all.objectStore('messages').put({
              id: 'old',
              messages: [
                { id: 'a', role: 'user', content: 'an old question', attachments: [{ name: 'old.txt', text: 'x' }] },
                { id: 'b', ...answer, state: 'done' },
                { id: 'c', role: 'user', content: 'more' },
                { id: 'd', ...answer, state: 'streaming' },
              ],
            });
            all.objectStore('messages').put({ id: 'older', messages: [{ id: 'e', role: 'user', content: 'begins so' }] });
            all.oncomplete = () => (opening.result.close(), resolve());
          };
        };
      }),
  );
  await other.close();
  await page.goto(new URL('./#old', address).href);
  await see('all its messages', () => document.querySelectorAll('.message').length === 4);
  await see('its file and its end', () => {
    const all = [...document.querySelectorAll('.message')].map(({ textContent }) => textContent);
    return all[0].includes('old.txt') && all[1].startsWith('an old answer') && all[3].includes('Stopped');
  });
  await see('its name', () => document.title.startsWith('a given name'));
  await see('the list', () => document.querySelectorAll('.conversations li').length === 2);
  await hands.say('and new');
  await hands.answered('You said: and new');
  await page.reload();
  await hands.many(6);
}
