import { createHmac, hash } from 'node:crypto';
import type { HttpRequest } from '../../src/platform/http/http-client.ts';
import type { Fields } from '../bench/quota/references/trace.ts';
import type { Hook, ProviderState, Vendor } from '../support/vendors/provider-servers/provider.ts';
import type { PlainAnswer } from './network.ts';
import type { Forge } from './plan.ts';

/** No other pull request of a plan has so large a number. */
const FIRST = 1_001;
const HOUR = 3_600_000;
const STATES = ['merged', 'closed', 'open', 'closed'] as const;

/** Pull requests from the time before worksync began. What is open is found by a sweep, and the rest only when somebody asks for it. */
export function createPast(began: number) {
  const closed = new Map<Forge, Set<number>>();
  const known = new Set<Forge>();
  return {
    /** There are so many at this vendor, by their numbers from this one on. */
    begin(forge: Forge, vendor: ProviderState<Vendor>, count: number, first = FIRST) {
      const ofForge = closed.get(forge) ?? new Set<number>();
      for (let number = first; number < first + count; number++) {
        const state = STATES[number % STATES.length] as (typeof STATES)[number];
        const title = `${number % 5 === 0 ? `BUG-${number % 8}: ` : ''}Change of before`;
        const line = { at: 0, connection: forge, item: `app/${number}`, updated: 0, event: 'edited' };
        vendor.happen({ ...line, fields: { ...BLANK, title, state } }, began - (number - first + 2) * HOUR);
        if (state !== 'open') ofForge.add(number);
      }
      closed.set(forge, ofForge);
    },
    asked: (forge: Forge) => void known.add(forge),
    /** An older backup was put back, which may not know of that. */
    forgotten: () => known.clear(),
    /** Whether worksync need not know of this one. */
    isUnheard: (forge: Forge, number: number) => !known.has(forge) && closed.get(forge)?.has(number) === true,
  };
}

export const BLANK: Fields = {
  ...{ title: '', description: '', state: 'open', draft: false, head: 'abc' },
  ...{ reviewers: [], labels: [], assignees: [] },
};

const FIRST_NAME = 'acme/app';
/** Its id at GitHub. */
const OURS = '5001';

/** A repository at GitHub that gets other names, or other owners. All but the last of its names lead on by its id. */
export function createRenamed() {
  const names = [FIRST_NAME];
  const present = () => names.at(-1) as string;
  const inPresentWords = (text: string) => text.replaceAll(FIRST_NAME, present());
  return {
    rename: (name: string) => void names.push(name),
    /** Addresses that its pull request had so far. */
    urls: (first: string) => [...new Set(names)].map((name) => first.replace(FIRST_NAME, name)),
    hook: ({ headers, body }: Hook, secret: string) => signed(headers, inPresentWords(body), secret),
    /** @param answer by the first name */
    answer(request: HttpRequest, answer: (request: HttpRequest) => PlainAnswer): PlainAnswer {
      const { origin, pathname } = new URL(request.url);
      const asked = names.find((name) => pathname === `/repos/${name}` || pathname.startsWith(`/repos/${name}/`));
      if (asked !== undefined && asked !== present()) {
        const location = `${origin}/repositories/${OURS}${pathname.slice(`/repos/${asked}`.length)}`;
        const body = JSON.stringify({ message: 'Moved Permanently', url: location });
        return { status: 301, headers: { location, 'content-type': 'application/json' }, body };
      }
      if (present() === FIRST_NAME) return answer(request);
      const url = request.url.replace(`/repos/${present()}`, `/repos/${FIRST_NAME}`);
      const { 'if-none-match': known, ...headers } = request.headers ?? {};
      const given = answer({ ...request, url, headers });
      const body = inPresentWords(given.body);
      const etag = `"${hash('sha256', body, 'hex').slice(0, 16)}"`;
      const told = { ...given.headers, ...(given.headers['etag'] !== undefined && { etag }) };
      return known === etag ? { status: 304, headers: told, body: '' } : { status: given.status, headers: told, body };
    },
  };
}

export function signed(headers: Hook['headers'], body: string, secret: string): Hook {
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  return { headers: { ...headers, 'x-hub-signature-256': signature }, body };
}
