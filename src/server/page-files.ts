/**
 * Files that let browsers install the page like an app: a manifest, an icon, and a service worker
 * that opens the page while the server is off.
 */

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" fill="#115e59"/><path d="M9 22V10m7 12V6m7 16v-8" stroke="white" stroke-width="4" stroke-linecap="round"/></svg>`;

const MANIFEST = {
  name: 'quantlet',
  description: 'Chat with a language model that this server runs.',
  start_url: './',
  scope: './',
  display: 'standalone',
  background_color: '#14181b',
  theme_color: '#115e59',
  icons: [{ src: './icon.svg', type: 'image/svg+xml', sizes: 'any', purpose: 'any maskable' }],
};

/**
 * Another server may use the same address later, since it may be just a port of this machine. If
 * the page is no longer quantlet's, the worker unregisters itself.
 */
const SERVICE_WORKER = `const CACHE = 'quantlet served page';
const { registration } = self;
async function answer(request) {
  const cache = await caches.open(CACHE);
  let response;
  try {
    response = await fetch(request);
  } catch (error) {
    const kept = await cache.match(registration.scope);
    if (kept) return kept;
    throw error;
  }
  if (response.status === 200) {
    if ((await response.clone().text()).includes('href="./manifest.webmanifest" id="quantlet"')) await cache.put(registration.scope, response.clone());
    else await Promise.all([caches.delete(CACHE), registration.unregister()]);
  }
  return response;
}
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('fetch', (event) => {
  if (event.request.mode === 'navigate' && event.request.url.split(/[?#]/)[0] === registration.scope) event.respondWith(answer(event.request));
});
`;

/** The files by name, with their content types. */
export const PAGE_FILES: { readonly [name: string]: readonly [type: string, body: string] } = {
  'manifest.webmanifest': ['application/manifest+json', JSON.stringify(MANIFEST)],
  'icon.svg': ['image/svg+xml', ICON],
  'service-worker.js': ['text/javascript; charset=utf-8', SERVICE_WORKER],
};
