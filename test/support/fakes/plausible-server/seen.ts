import { type Call, type Fields, isCreation, isSuccess, type Reply } from './exchange.ts';

export type Seen = ReturnType<typeof createSeen>;

/** Requests and effects of a server. A lost answer counts too, unless `Faults` of the service itself lost it. */
export function createSeen() {
  return {
    requests: new Map<string, number>(),
    /** Answers of 4xx, by route and status: `listTasks 429`. */
    refusals: new Map<string, number>(),
    opened: [] as string[],
    /** Created tasks, by source and title as the client sent them: `["<source>","<title>"]`. */
    creations: new Map<string, number>(),
    /** Present links, by task and address: `<taskId> <url>`. */
    links: new Map<string, number>(),
    webhooks: new Map<string, number>(),
  };
}

export function count(counts: Map<string, number>, name: string, by = 1): void {
  const sum = (counts.get(name) ?? 0) + by;
  if (sum === 0) counts.delete(name);
  else counts.set(name, sum);
}

export function doubled({ creations, links }: Seen): string[] {
  return [...creations, ...links].filter(([, number]) => number > 1).map(([name]) => name);
}

export function sawRequest(seen: Seen, { route }: Call): void {
  count(seen.requests, route);
}

export function sawReply(seen: Seen, { route }: Call, { status }: Reply): void {
  if (status >= 400 && status < 500) count(seen.refusals, `${route} ${status}`);
}

export function effectCounter(seen: Seen) {
  const urls = new Map<string, string>();
  return {
    /** @param sent the body as the client sent it */
    carriedOut(call: Call, reply: Reply, sent: Fields): void {
      if (!isSuccess(reply)) return;
      const body = (reply.body ?? {}) as Fields;
      if (isCreation(call)) count(seen.creations, JSON.stringify([sent['source'] ?? null, sent['title']]));
      if (call.route === 'createPullRequest' && String(body['identifier']) !== String(sent['identifier']))
        seen.opened.push(String(sent['title']));
      const { taskId, workItemId } = call.ids;
      if (call.route === 'addWorkItem' && reply.status === 201) {
        const name = `${taskId} ${shownUrl(String(body['url']))}`;
        urls.set(String(body['workItemId']), name);
        count(seen.links, name);
      }
      const name = call.route === 'removeWorkItem' ? urls.get(String(workItemId)) : undefined;
      if (name !== undefined) count(seen.links, name, -1);
    },
  };
}

const COPY = '#copy-of-this-link-';

/** An address under which the reference service stores a further link to `url`. */
export function copyOfUrl(url: string, number: number): string {
  return `${url}${COPY}${number}`;
}

export function shownUrl(url: string): string {
  return url.split(COPY, 1)[0]!;
}
