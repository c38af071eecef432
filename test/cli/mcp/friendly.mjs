// An MCP server made with the SDK, over stdio, or over HTTP with the argument "http".
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';
const text = (words) => ({ content: [{ type: 'text', text: words }] });

function makeServer() {
  const server = new McpServer({ name: 'friendly', version: '1.0.0' });
  server.registerTool('echo', { description: 'Says it again', inputSchema: { text: z.string() } }, ({ text: said }) =>
    text(`echo: ${said}`),
  );
  server.registerTool('env', { description: 'A variable', inputSchema: { name: z.string() } }, ({ name }) =>
    text(String(process.env[name])),
  );
  server.registerTool('picture', {}, () => ({
    content: [
      { type: 'text', text: 'see' },
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
    ],
  }));
  server.registerTool('others', {}, () => ({
    content: [
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'file:///a.txt', name: 'a' },
      { type: 'resource', resource: { uri: 'file:///b.txt', text: 'text of b' } },
      { type: 'resource', resource: { uri: 'file:///c.bin', blob: 'AAAA' } },
    ],
  }));
  server.registerTool('fails', {}, () => ({ content: [{ type: 'text', text: 'no such city' }], isError: true }));
  server.registerTool('throws', {}, () => Promise.reject(new Error('thrown')));
  server.registerTool('long', {}, () => text('word '.repeat(200_000)));
  server.registerTool('hangs', {}, () => new Promise(() => {}));
  server.registerTool('dies', {}, () => {
    process.stderr.write('out of luck\n');
    process.exit(3);
  });
  return server;
}

if (process.argv[2] === 'http') {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    if (request.headers['x-key'] !== 'secret') return response.writeHead(401).end('no key');
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: () => process.stdout.write('left\n'),
      });
      await makeServer().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.listen(0, '127.0.0.1', () => process.stdout.write(`${http.address().port}\n`));
} else await makeServer().connect(new StdioServerTransport());
