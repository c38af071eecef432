import { openAsBlob } from 'node:fs';
import { modelPath } from '../model-path.js';

export const dynamic = 'force-dynamic';

export async function GET() {
  return new Response(await openAsBlob(modelPath()), { headers: { 'content-type': 'application/octet-stream' } });
}
