/** quantlet starts threads from its own files: they must stay files, so the package is not bundled on the server. */
const config = { serverExternalPackages: ['quantlet'] };
export default config;
