// Relative addresses: the built page runs from any folder of a static host. In a clone, `npm ci` at its root has installed all that this needs.
export default {
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: { target: 'es2022', modulePreload: false },
  server: { fs: { allow: ['../..'] } },
};
