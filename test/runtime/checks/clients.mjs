// `quantlet serve` of the packed package with requests from common clients and agent libraries, as
// npm has them.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { app, here, model, run, start, tool } from '../lib/consumer.mjs';
import { freePort } from '../lib/wait.mjs';

/** Writes tools, calls and results, so that a turn that lost one of them has another prompt. */
const template =
  "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}{{ m.role + ': ' + (m.content or '') + '\\n' }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

const PACKAGES = ['@anthropic-ai/sdk', 'openai', 'ai', '@langchain/openai', '@langchain/ollama', 'ollama', '@openai/agents'];
const versionOf = (name) => JSON.parse(readFileSync(join(here, 'node_modules', name, 'package.json'), 'utf8')).version;

export const clients = [
  {
    name: 'quantlet serve, asked by clients and agents (openai)',
    async run() {
      const file = join(app, 'clients.jinja');
      writeFileSync(file, template);
      const cli = join(app, 'node_modules/quantlet/dist/cli.js');
      const args = ['serve', '-m', model, '-c', 2048, '--parallel', 2, '--port', await freePort(), '--chat-template-file', file];
      const server = await start(process.execPath, [cli, ...args].map(String), /at (http:\/\/\S+)/);
      try {
        // OpenAI's Agents need Node 22.
        const { stdout } = await run(tool('node-24/bin/node'), [join(here, 'lib/clients-suite.mjs'), server.found[1]]);
        const { faults, count } = JSON.parse(stdout.trim().split('\n').at(-1));
        const versions = PACKAGES.map((name) => `${name} ${versionOf(name)}`).join(', ');
        return { faults, version: versions, checked: `${count} checks` };
      } finally {
        await server.stop();
      }
    },
  },
];
