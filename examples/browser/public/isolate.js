// One file, two lives. In the page it registers itself as a service worker and loads the page once more; as the service worker it
// adds the two headers that make a page cross-origin isolated, for hosts that cannot send them. Without them all works with one thread.
if (typeof window === 'undefined') {
  self.addEventListener('install', () => self.skipWaiting());
  self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
  self.addEventListener('fetch', (event) => {
    const { request } = event;
    // Other origins' answers are none of our business, and a request from the cache only must stay one.
    if (!request.url.startsWith(self.location.origin) || (request.cache === 'only-if-cached' && request.mode !== 'same-origin')) return;
    event.respondWith(
      fetch(request).then((response) => {
        if (response.status === 0) return response;
        const headers = new Headers(response.headers);
        headers.set('cross-origin-opener-policy', 'same-origin');
        headers.set('cross-origin-embedder-policy', 'require-corp');
        headers.set('cross-origin-resource-policy', 'same-origin');
        return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
      }),
    );
  });
} else if (!window.crossOriginIsolated && window.isSecureContext && 'serviceWorker' in navigator && !sessionStorage.isolating) {
  navigator.serviceWorker.register(document.currentScript.src).then(async () => {
    await navigator.serviceWorker.ready;
    sessionStorage.isolating = 1; // once: a browser that does not isolate all the same must not load for ever
    window.location.reload();
  }, () => {});
}
