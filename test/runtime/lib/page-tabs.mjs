// Tabs that share a conversation, tabs that are hidden or closed, a server that stops and starts:
// no message is lost.

const messages = ({ page }) => page.$$eval('.message', (all) => all.map(({ textContent }) => textContent));
async function expectMessages(hands, what, texts) {
  await hands.many(texts.length);
  const found = await messages(hands);
  texts.forEach((text, i) => {
    if (!found[i].includes(text)) hands.fault(`${what}: message ${i + 1} is ${JSON.stringify(found[i].slice(0, 80))}, expected "${text}"`);
  });
}

/** Types a text into the composer without sending it. */
async function write({ page, type }, text) {
  await page.bringToFront();
  await type('.composer textarea', text);
}
const submit = ({ page }) => page.$eval('.composer', (form) => form.requestSubmit());

async function say(hands, text) {
  await hands.page.bringToFront();
  await hands.say(text);
}

/**
 * Both tabs write, one after the other and at the same time, and rename the conversation. Both show
 * all of it, also after a reload.
 */
export async function useTabs(first) {
  await first.press('New chat');
  await first.many(0);
  await say(first, 'one');
  await first.answered('You said: one');
  const second = await first.tab();
  await second.many(2);
  await say(first, 'two');
  await first.answered('You said: two');

  // The other tab shows it, and renames the conversation.
  await second.page.bringToFront();
  await second.many(4);
  await second.click('.conversations .menu summary');
  await second.press('Rename');
  await second.type('.conversations input', 'a name of the second tab');
  await second.page.keyboard.press('Enter');
  await first.see('the name', () => document.title.startsWith('a name of the second tab'));
  const said = ['one', 'You said: one', 'two', 'You said: two'];
  for (const tab of [first, second]) {
    await tab.page.reload();
    await expectMessages(tab, 'after a new name', said);
  }

  // While an answer is written in one tab, the other sends a message, which is answered afterwards.
  await say(first, 'think');
  await say(second, 'three');
  await second.answered('You said: three');
  said.push('think', 'I thought about it: yes.', 'three', 'You said: three');
  for (const tab of [first, second]) await expectMessages(tab, 'one tab after the other', said);

  // Both at the same time.
  await write(first, 'four of the first');
  await write(second, 'four of the second');
  await Promise.all([submit(first), submit(second)]);
  for (const tab of [first, second]) {
    await tab.many(12);
    await tab.see('both answers', () => {
      const all = [...document.querySelectorAll('.message.assistant')].slice(-2).map((answer) => answer.textContent);
      return ['first', 'second'].every((one) => all.some((text) => text.includes(`You said: four of the ${one}`)));
    });
  }
  await first.page.reload();
  await first.many(12);
  const kept = await messages(first);
  for (const one of ['first', 'second'])
    if (!kept.some((text) => text.startsWith(`four of the ${one}`))) first.fault(`what the ${one} tab said at once is lost`);

  await useHidden(first, second);
  await second.page.close();
}

/**
 * A hidden tab stores what it receives, and another tab shows it. A closed tab's answer is kept as
 * far as it came.
 */
async function useHidden(first, second) {
  const closed = await second.tab();
  await closed.many(12);
  await say(closed, 'long');
  await second.page.bringToFront();
  await second.see('words of the hidden tab', () => [...document.querySelectorAll('.message')].at(-1).textContent.length > 400);
  const stored = await second.page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const opening = indexedDB.open('quantlet');
        opening.onerror = () => reject(opening.error);
        opening.onsuccess = () => {
          const all = opening.result.transaction('nodes').objectStore('nodes').getAll();
          all.onsuccess = () => (opening.result.close(), resolve(all.result.find(({ state }) => state === 'streaming')?.content.length));
        };
      }),
  );
  if (!(stored > 200)) second.fault(`a hidden tab keeps ${stored} characters of what it shows`);
  await closed.page.close();
  await second.see('that the answer ended with its tab', () =>
    [...document.querySelectorAll('.message')].at(-1).textContent.includes('Stopped'),
  );
  await second.page.reload();
  await second.many(14);
  const last = (await messages(second)).at(-1);
  if (!/^Sentence 1 of a long answer[^]{300}/.test(last)) second.fault(`of a closed tab ${JSON.stringify(last.slice(0, 60))} is left`);
  await first.page.bringToFront();
  await first.many(14);
}

/**
 * Without its server the page loses no edited message and no regenerated answer. It continues when
 * the server is back.
 */
export async function useReturn(hands, { stopServer, startServer }) {
  const { page, fault, see, press, click, last } = hands;
  // The page opens without its server once a service worker has cached it.
  await see('the service worker', () => navigator.serviceWorker.controller !== null);
  await page.reload();
  await see('the page in the cache', async () => (await (await caches.open('quantlet served page')).keys()).length === 1);
  await press('New chat');
  await hands.many(0);
  await say(hands, 'one');
  await hands.answered('You said: one');
  await say(hands, 'two');
  await hands.answered('You said: two');
  const said = ['one', 'You said: one', 'two', 'You said: two'];
  await say(hands, 'long');
  await see('some words', () => [...document.querySelectorAll('.message')].at(-1).textContent.length > 200);
  await stopServer();
  await see('that the connection broke', () =>
    [...document.querySelectorAll('.message')].at(-1).querySelector('[role=alert]')?.textContent.includes('connection broke'),
  );
  if (!/^Sentence 1 of a long/.test(await last())) fault('what came before the connection broke is lost');

  // An early message is edited, and the last answer is requested again.
  await click('.message.user [aria-label=Edit]');
  await hands.type('.editor textarea', 'another one');
  await page.keyboard.press('Enter');
  await see('that there is no server', () => document.querySelector('.message [role=alert]')?.textContent.includes('cannot be reached'));
  await expectMessages(hands, 'an edit without a server', ['another one', 'cannot be reached']);
  await press('Version before');
  await expectMessages(hands, 'the version before', [...said, 'long', 'Sentence 1']);
  await press('Try again');
  await see('that there is no server', () =>
    [...document.querySelectorAll('.message')].at(-1).querySelector('[role=alert]')?.textContent.includes('cannot be reached'),
  );
  await page.reload();
  await see('the messages', () => document.querySelectorAll('.message').length === 6);
  await click('.message:last-child [aria-label="Version before"]');
  await see('the answer before', () => [...document.querySelectorAll('.message')].at(-1).textContent.startsWith('Sentence 1'));

  await startServer();
  await see('the server', () => document.querySelector('.model-name')?.textContent === 'scripted');
  await press('Continue');
  await hands.answered('Here it went on.');
  if (!/^Sentence 1 of a long[^]*Here it went on\./.test(await last())) fault('the answer did not go on where it broke');
  await page.reload();
  await expectMessages(hands, 'at the end', [...said, 'long', 'Here it went on.']);
}
