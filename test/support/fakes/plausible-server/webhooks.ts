import { sleep } from '../../../../src/platform/lib/clock.ts';
import { type Behaviour, type Fields, isWrite, type Site, type Webhook } from './exchange.ts';

const ACCEPTED = 204;

/** Changes the data of an event; undefined: the event is not sent. */
function onData(change: (parts: Parts) => Fields | undefined): () => Behaviour {
  return () => ({
    async deliver(webhook, next) {
      const data = change(partsOf(webhook));
      return data === undefined ? ACCEPTED : next({ ...webhook, event: { ...webhook.event, data } });
    },
  });
}

interface Parts {
  /** In camelCase, as `workItem`. */
  readonly name: string;
  readonly resource: Fields;
  readonly actor: unknown;
  readonly body: unknown;
}

function partsOf({ event }: Webhook): Parts {
  const kind = event.type.split('.', 1)[0]!;
  const name = kind.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  const { resource, actor, [kind]: body } = event.data;
  const { id } = resource as { id: string };
  return { name, resource: { ...(resource as Fields), type: name, [`${name}Id`]: id }, actor, body };
}

/** No event of a pull request is publicly known. */
const isUnknown = ({ name }: Parts) => name === 'pullRequest';

export const flatEvents = onData((parts) =>
  isUnknown(parts) ? undefined : { resource: parts.resource, actor: parts.actor, [parts.name]: parts.body },
);

export const nestedEvents = onData((parts) =>
  isUnknown(parts)
    ? undefined
    : { resource: parts.resource, actor: parts.actor, [parts.name]: { [parts.name]: parts.body } },
);

export const idsOnly = onData((parts) =>
  isUnknown(parts) ? undefined : { resource: parts.resource, actor: parts.actor },
);

export const noEvents = onData(() => undefined);

const GATHERING = 2_000;

/** Events of tasks within 2 s of the first are one, which carries only their ids. */
export function bulkEvents({ clock }: Site): Behaviour {
  let gathered: string[] = [];
  const other = idsOnly();
  return {
    async deliver(webhook, next) {
      const { name, resource, actor } = partsOf(webhook);
      if (name !== 'task') return other.deliver!(webhook, next);
      gathered.push(String(resource['taskId']));
      if (gathered.length > 1) return ACCEPTED;
      clock.after(GATHERING, () => {
        const taskIds = [...new Set(gathered)];
        gathered = [];
        const data = { resource: { type: 'task', workspaceId: webhook.event['workspaceid'], taskIds }, actor };
        void next({ ...webhook, event: { ...webhook.event, type: 'task.updated', data } }).catch(() => undefined);
      });
      return ACCEPTED;
    },
  };
}

export const doubledEvents = (): Behaviour => ({
  async deliver(webhook, next) {
    await next(webhook);
    return next(webhook);
  },
});

const HOLDING = 5_000;

/** Swaps two events: the later one comes first. An event waits for another one for at most 5 s. */
export function swappedEvents({ clock }: Site): Behaviour {
  let release: (() => Promise<unknown>) | undefined;
  return {
    async deliver(webhook, next) {
      const earlier = release;
      if (earlier) {
        release = undefined;
        const status = await next(webhook);
        await earlier();
        return status;
      }
      const own = () => next(webhook).catch(() => undefined);
      release = own;
      clock.after(HOLDING, () => {
        if (release !== own) return;
        release = undefined;
        void own();
      });
      return ACCEPTED;
    },
  };
}

const LATE = 1_000;

/** The answer to a write comes 1 s after the service has carried it out, and so after the events of the write. */
export const lateAnswers = ({ clock }: Site): Behaviour => ({
  async answer(call, next) {
    const reply = await next(call);
    if (isWrite(call)) await sleep(clock, LATE);
    return reply;
  },
});
