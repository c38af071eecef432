/** quantlet starts threads from its own files, so the package must not be bundled on the server. */
const config = { serverExternalPackages: ['quantlet'] };
export default config;
