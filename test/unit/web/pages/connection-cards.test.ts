import { expect, it } from 'vitest';
import type { ConnectionStatus } from '../../../../src/admin/status.ts';
import { WARNINGS } from '../../../../src/admin/verdict.ts';
import { troubles } from '../../../../src/web/pages/connection-cards.ts';

const CONNECTION: ConnectionStatus = {
  ...{
    name: 'github',
    connector: 'github',
    mirror: 'auto',
    webhookPath: null,
    schedule: null,
    lastDeliveryAt: null,
    lastWebhookAt: null,
    units: 0,
  },
  ...{ walking: 0, lastPollAt: null, failingUnits: 0, failure: null, fetches: 0, lastSweepAt: null, lastRefused: null },
  switchedOff: [],
  missingUnits: ['acme/<lost>'],
  ...{ refusedFetches: 2, fetchRefusal: 'not_found: <404>', unverifiedItems: 3 },
  hooks: {
    at: null,
    silent: [{ subject: 'acme/app', state: 'missing', message: 'nobody made it' }],
    failure: 'forbidden: no scope',
    redeliveryFailure: 'server_failed: status 502',
  },
  names: [
    { name: 'acme/old', id: '1', called: 'acme/new', elsewhere: null },
    { name: 'acme/app', id: '2', called: 'acme/app', elsewhere: '3' },
  ],
};

function wordsOf(connection: ConnectionStatus, cause?: string): string {
  return troubles(connection, cause)
    .map(({ text }) => text.replace(/<[^<>]+>/g, ''))
    .join('; ');
}

it('says of a cause only what belongs to it, and of the connection everything', () => {
  const told = WARNINGS.map(({ code }) => [code, wordsOf(CONNECTION, code)]).filter(([, words]) => words);
  expect(told).toEqual([
    ['names_rebound', 'scope_rebound acme/app leads to 3 now, and led to 2 before'],
    ['webhooks_silent', 'webhook missing at acme/app: nobody made it'],
    ['webhooks_unknown', 'webhooks forbidden: no scope'],
    ['redeliveries_failing', 'webhooks server_failed: status 502'],
    ['units_missing', 'not found acme/&lt;lost&gt;'],
    ['fetches_refused', 'not fetched 2 objects: not_found: &lt;404&gt;'],
  ]);
  const all = wordsOf(CONNECTION);
  for (const [, words] of told) expect(all).toContain(words);
  expect(all).toContain('acme/old is now called acme/new');
});

it('names the first of many, and how many more there are', () => {
  const many = { ...CONNECTION, missingUnits: Array.from({ length: 1_500 }, (_, at) => `acme/repository-${at}`) };
  const words = wordsOf(many, 'units_missing');
  expect(words).toContain('acme/repository-19; and 1,480 more');
  expect(words).not.toContain('repository-20');
});
