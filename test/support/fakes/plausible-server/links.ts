import { type Behaviour, isSuccess, type Reply, refusal } from './exchange.ts';
import { copyOfUrl, shownUrl } from './seen.ts';

function onAdded(change: (reply: Reply) => Reply): Behaviour {
  return {
    async answer(call, next) {
      const reply = await next(call);
      return call.route === 'addWorkItem' && isSuccess(reply) ? change(reply) : reply;
    },
  };
}

/** Every repetition is another link. */
export function doublingLinks(): Behaviour {
  let copies = 0;
  return {
    async answer(call, next) {
      const reply = await next(call);
      if (call.route !== 'addWorkItem' || reply.status !== 200) return reply;
      return next({ ...call, body: { ...call.body, url: copyOfUrl(String(call.body['url']), ++copies) } });
    },
    showLink: (link) => ({ ...link, url: shownUrl(String(link['url'])) }),
  };
}

export const refusedRepetition = (): Behaviour =>
  onAdded((reply) => (reply.status === 200 ? refusal(409, 'conflict', 'the task has this link') : reply));

export const emptyLinkAnswer = (): Behaviour => onAdded(({ headers }) => ({ status: 204, headers }));

export const withoutExternalId = (): Behaviour => ({ showLink: (link) => ({ ...link, externalId: null }) });

/** Stores addresses in lower case, without a fragment and with a slash at the end. */
export const normalisedUrls = (): Behaviour => ({
  answer(call, next) {
    if (call.route !== 'addWorkItem') return next(call);
    const url = String(call.body['url']).toLowerCase().split('#', 1)[0]!.replace(/\/*$/, '/');
    return next({ ...call, body: { ...call.body, url } });
  },
});

export const onlyAddsLinks = (): Behaviour => ({
  async answer(call, next) {
    if (call.route !== 'listWorkItems' && call.route !== 'removeWorkItem') return next(call);
    return { ...refusal(405, 'method_not_allowed', 'this address takes POST'), headers: { allow: 'POST' } };
  },
});

/** `DELETE …/work-items?url=…` removes a link; there is no address for a link's id. */
export const removalByAddress = (): Behaviour => ({
  async answer(call, next) {
    if (call.route !== 'removeWorkItem') return next(call);
    if (call.ids['workItemId'] !== undefined) return refusal(404, 'not_found', 'address not found');
    const { ids, query } = call;
    const reply = await next({ ...call, route: 'listWorkItems', method: 'GET', query: new URLSearchParams() });
    if (!isSuccess(reply)) return reply;
    const { workItems } = reply.body as { workItems: { workItemId: string; url: string }[] };
    const found = workItems.find(({ url }) => url === query.get('url'));
    if (found === undefined) return refusal(404, 'not_found', 'work item not found');
    const { workItemId } = found;
    return next({
      ...call,
      path: `${call.path}/${workItemId}`,
      ids: { ...ids, workItemId },
      query: new URLSearchParams(),
    });
  },
});

export const removedAnyway = (): Behaviour => ({
  async answer(call, next) {
    const reply = await next(call);
    return call.route === 'removeWorkItem' && reply.status === 404 ? { status: 204, headers: {} } : reply;
  },
});
