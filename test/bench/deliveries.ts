import { createHmac } from 'node:crypto';
import examples from '@octokit/webhooks-examples' with { type: 'json' };

export interface SignedBody {
  readonly body: Buffer;
  readonly signature: string;
}

export const SECRET = 'a webhook secret for the bench only';
export const REPOSITORY = 'Codertocat/Hello-World';

/** Bytes of each body: the smallest of GitHub's published `pull_request` examples has about as many. */
const SIZE = 21_504;

/** GitHub's published `pull_request` example as `count` different pull requests, each padded to 21 KiB and signed. */
export function pullRequestBodies(count: number): SignedBody[] {
  const example = JSON.stringify(openedExample());
  return Array.from({ length: count }, (_, index) => sign(pullRequestBody(example, index + 1)));
}

export function largeBody(bytes: number, number: number): SignedBody {
  const payload = JSON.parse(pullRequestBody(JSON.stringify(openedExample()), number).toString()) as {
    pull_request: { base: Record<string, unknown> };
  };
  const label = { id: 1_362_934_389, node_id: 'MDU6TGFiZWwxMzYyOTM0Mzg5', name: 'bug', color: 'd73a4a', default: true };
  const count = Math.floor((bytes - 2 * SIZE) / (JSON.stringify(label).length + 1));
  payload.pull_request.base['padding'] = Array.from({ length: count }, () => label);
  return sign(Buffer.from(JSON.stringify(payload)));
}

function openedExample(): object {
  const published = examples as unknown as readonly { name: string; examples: readonly { action?: string }[] }[];
  const found = published
    .find(({ name }) => name === 'pull_request')
    ?.examples.find(({ action }) => action === 'opened');
  if (!found) throw new Error('@octokit/webhooks-examples holds no opened pull request');
  return found;
}

function pullRequestBody(example: string, number: number): Buffer {
  const payload = JSON.parse(example) as { number: number; pull_request: Record<string, unknown> };
  payload.number = number;
  Object.assign(payload.pull_request, { number, body: '' });
  const missing = SIZE - Buffer.byteLength(JSON.stringify(payload));
  payload.pull_request['body'] = 'What this changes, and why. '.repeat(SIZE / 28).slice(0, missing);
  return Buffer.from(JSON.stringify(payload));
}

function sign(body: Buffer): SignedBody {
  return { body, signature: `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}` };
}
