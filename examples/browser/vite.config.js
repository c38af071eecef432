// Relative URLs, so that the built page runs from any folder of a static host. In a clone of the
// repository, `npm ci` at its root installs all dependencies.
export default {
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: { target: 'es2022', modulePreload: false },
  server: { fs: { allow: ['../..'] } },
};
