// Builds the page of servers (page/) as one HTML text, which needs no other file.
// (src/server/page-files.ts has the files that make it an app.) Its policy allows no other script,
// style or host.
import { createHash } from 'node:crypto';

/** @param build Vite's */
export async function pageHtml(build) {
  const { output } = await build({ configFile: 'page/vite.config.ts', build: { write: false } });
  const [script, style] = ['.js', '.css'].map((end) => {
    const made = output.filter(({ fileName }) => fileName.endsWith(end));
    if (made.length !== 1) throw new Error(`the page has become ${made.length} files ${end}; expected one`);
    return made[0].code ?? made[0].source;
  });
  // Text that would end the element, or begin a comment in it, occurs in strings and regular
  // expressions only.
  const code = script.replace(/<(?=\/script|script|!--)/gi, '\\x3C');
  const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const policy = `default-src 'none'; script-src ${hash(code)}; style-src ${hash(style)}; connect-src 'self'; img-src 'self' data:; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'`;
  return output
    .find(({ fileName }) => fileName === 'index.html')
    .source.replace(/\s*<(script|link rel="stylesheet")[^>]*>(<\/script>)?/g, '')
    .replace(/(?=\s*<meta name="viewport")/, () => `\n    <meta http-equiv="content-security-policy" content="${policy}">`)
    .replace(
      /(?=\s*<\/head>)/,
      () =>
        `\n    <link rel="manifest" href="./manifest.webmanifest" id="quantlet">\n    <style>${style}</style>\n    <script type="module">${code}</script>`,
    );
}
