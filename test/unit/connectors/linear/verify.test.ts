import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { linear } from '../../../../src/connectors/linear/index.ts';
import { activeWith, inboxOf, openEndpoint, openTestStore } from '../../../support/harness/intake.ts';

const body = readFileSync(new URL('../../../../src/connectors/linear/fixtures/issue.update.json', import.meta.url));

it('is answered with 200, since Linear takes nothing else for success, and with 401 where it is not proved', async () => {
  const store = await openTestStore();
  const active = activeWith({ name: 'linear', connector: { ...linear } as never, secrets: ['S'] });
  const endpoint = await openEndpoint(store, [active]);
  const headers = {
    'linear-signature': createHmac('sha256', 'S').update(body).digest('hex'),
    'linear-event': 'Issue',
    'linear-delivery': '234d1a4e-b617-4388-90fe-adc3633d6b72',
  };
  for (const outcome of ['new', 'repeated']) {
    const answer = await endpoint.post('/webhooks/main/linear', body, headers);
    expect(answer).toMatchObject({ status: 200, body: `{"delivery":"${outcome}"}` });
  }
  const forged = { ...headers, 'linear-signature': '0'.repeat(64) };
  expect(await endpoint.post('/webhooks/main/linear', body, forged)).toMatchObject({ status: 401 });
  expect(await inboxOf(store)).toMatchObject([{ event: 'Issue', body: body.toString() }]);
});
