import { Webhooks } from '@octokit/webhooks';
import { type PullSetting, pullEvent } from '../vendors/github-payloads.ts';

/** A signed webhook of GitHub about a pull request of this number. The status, or `refused` where nobody listens any more. */
export async function postPull(
  url: string,
  secret: string,
  number: number,
  setting: PullSetting = {},
  id = `delivery-${number}`,
): Promise<number | 'refused'> {
  const body = JSON.stringify(pullEvent({ ...setting, number }));
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'pull_request',
    'x-github-delivery': id,
    'x-hub-signature-256': await new Webhooks({ secret }).sign(body),
  };
  return fetch(url, { method: 'POST', headers, body }).then(
    ({ status }) => status,
    () => 'refused' as const,
  );
}
