// One file, two lives. In the page it registers itself as a service worker and, where the page is not cross-origin isolated, loads it once more.
// As the service worker it keeps what the page is made of, so that the page opens without a net, and adds the two headers that isolate a page,
// for hosts that cannot send them: without isolation all works with one thread. Models are not its business: the page keeps them itself.
const CACHE = 'quantlet page';

/**
 * What is kept lies by the page it belongs to: a page that was published anew begins a cache of its own. The one before stays, as parts that did not
 * change are asked for only when a model is loaded; older ones go.
 */
const caching = async () => (await caches.keys()).filter((name) => name.startsWith(CACHE)).reverse();

async function keep(request, response) {
  if (request.mode === 'navigate') {
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', await response.clone().arrayBuffer()));
    const name = `${CACHE} ${[...hash.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
    const [newest] = await caching();
    if (name !== newest) {
      await caches.delete(name); // an earlier page that is published again is the newest now
      await caches.open(name);
      for (const old of (await caching()).slice(2)) await caches.delete(old);
    }
  }
  const [newest = `${CACHE} first`] = await caching();
  await (await caches.open(newest)).put(request, response);
}

async function kept(request) {
  for (const name of await caching()) {
    const found = await (await caches.open(name)).match(request, { ignoreSearch: request.mode === 'navigate' });
    if (found) return found;
  }
  return undefined;
}

/** What a static host's answer becomes: the same with the headers of an isolated page. */
function isolated(response) {
  if (response.status === 0) return response;
  const headers = new Headers(response.headers);
  headers.set('cross-origin-opener-policy', 'same-origin');
  headers.set('cross-origin-embedder-policy', 'require-corp');
  headers.set('cross-origin-resource-policy', 'same-origin');
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

/** From the net, and from what was kept when there is none. */
async function answer(request) {
  let response;
  try {
    response = await fetch(request);
  } catch (error) {
    const found = await kept(request);
    if (found) return isolated(found);
    throw error;
  }
  const isModel = new URL(request.url).pathname.endsWith('.gguf');
  if (response.status === 200 && !isModel && !request.headers.has('range')) await keep(request, response.clone()).catch(() => {});
  return isolated(response);
}

if (typeof window === 'undefined') {
  self.addEventListener('install', () => self.skipWaiting());
  self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
  self.addEventListener('fetch', (event) => {
    const { request } = event;
    // Other origins' answers are none of our business, and a request from the cache only must stay one.
    if (!request.url.startsWith(self.location.origin) || request.method !== 'GET') return;
    if (request.cache === 'only-if-cached' && request.mode !== 'same-origin') return;
    event.respondWith(answer(request));
  });
} else if (window.isSecureContext && 'serviceWorker' in navigator) {
  navigator.serviceWorker.register(document.currentScript.src).then(
    async () => {
      await navigator.serviceWorker.ready;
      if (!window.crossOriginIsolated && !sessionStorage.isolating) {
        sessionStorage.isolating = 1; // once: a browser that does not isolate all the same must not load for ever
        window.location.reload();
        return;
      }
      // What was loaded before there was a service worker, or came out of a cache of the browser's own, has passed it by: once more, for it to keep.
      if (document.readyState !== 'complete') await new Promise((resolve) => window.addEventListener('load', resolve, { once: true }));
      const [newest] = await caching();
      const cache = newest && (await caches.open(newest));
      const parts = performance.getEntriesByType('resource').filter(({ name }) => name.startsWith(location.origin));
      for (const name of [location.href, ...parts.map(({ name }) => name)])
        if (!cache || !(await cache.match(name, { ignoreSearch: name === location.href }))) await fetch(name).catch(() => {});
    },
    () => {},
  );
}
