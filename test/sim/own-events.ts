import { SyncError } from '../../src/model/errors/sync-error.ts';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { WORKSPACE } from '../../src/store/workspace-answers.ts';
import { WEBHOOK_HEADERS } from '../../src/workspace-api/contract.ts';
import type { Recorder } from './history.ts';
import type { Network } from './network.ts';

/** Where the workspace sends its events; behind it each replica gets one in turn. */
const DOOR = 'http://daemon.test';
export const EVENTS_URL = `${DOOR}/webhooks/test/${WORKSPACE}`;

/** By which the workspace sends its own events to the daemon. */
export function createEventSender(surroundings: {
  readonly network: Pick<Network, 'send'>;
  readonly recorder: Pick<Recorder, 'record'>;
  readonly origins: () => readonly string[];
}): HttpClient {
  const { network, recorder, origins } = surroundings;
  let sent = 0;
  return {
    async request(request) {
      const all = origins();
      const url = request.url.replace(DOOR, all[sent++ % all.length] as string);
      const answer = await network.send('workspace', { ...request, url });
      const key = request.headers?.[WEBHOOK_HEADERS.eventId] ?? '';
      recorder.record({ what: 'hook', id: answer?.id, connection: WORKSPACE, key, status: answer?.status ?? 0 });
      if (!answer) throw new SyncError('outcome_unknown', `${url} answered nothing`);
      return { ...answer, body: Buffer.from(answer.body) };
    },
    close: async () => undefined,
  };
}
