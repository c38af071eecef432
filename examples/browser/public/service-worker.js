// This file runs in two places. In the page, it registers itself as a service worker and, if the
// page is not cross-origin isolated, reloads the page once. As the service worker, it caches the
// files of the page, so that the page opens offline, and adds the two headers that isolate a page,
// for hosts that cannot send them. Without isolation, everything works with one thread. Models are
// not cached here: the page does that itself.
const CACHE = 'quantlet page';

/**
 * Names of the caches, newest first. Each published version of the page has its own cache. The
 * previous version's stays, because unchanged parts are requested only when a model is loaded.
 * Older ones are deleted.
 */
const caching = async () => (await caches.keys()).filter((name) => name.startsWith(CACHE)).reverse();

async function keep(request, response) {
  if (request.mode === 'navigate') {
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', await response.clone().arrayBuffer()));
    const name = `${CACHE} ${[...hash.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
    const [newest] = await caching();
    if (name !== newest) {
      await caches.delete(name); // an earlier version that is published again is created again, as the newest
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

/** Copy of a response with the headers of an isolated page. */
function isolated(response) {
  if (response.status === 0) return response;
  const headers = new Headers(response.headers);
  headers.set('cross-origin-opener-policy', 'same-origin');
  headers.set('cross-origin-embedder-policy', 'require-corp');
  headers.set('cross-origin-resource-policy', 'same-origin');
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

/** Response from the network, or from the cache if offline. */
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
    // Ignore other origins, and requests that must be answered from the browser's cache only.
    if (!request.url.startsWith(self.location.origin) || request.method !== 'GET') return;
    if (request.cache === 'only-if-cached' && request.mode !== 'same-origin') return;
    event.respondWith(answer(request));
  });
} else if (window.isSecureContext && 'serviceWorker' in navigator) {
  navigator.serviceWorker.register(document.currentScript.src).then(
    async () => {
      await navigator.serviceWorker.ready;
      if (!window.crossOriginIsolated && !sessionStorage.isolating) {
        sessionStorage.isolating = 1; // only once: a browser that still does not isolate the page must not reload for ever
        window.location.reload();
        return;
      }
      // Resources that were loaded before there was a service worker, or from the browser's own
      // cache, did not pass through it. Fetch them again so that it caches them.
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
