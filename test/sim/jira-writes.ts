import { createHmac } from 'node:crypto';
import { altered, fixture } from '../support/vendors/model-providers/provider.ts';
import type {
  Asked,
  Happening,
  HeldIssue,
  Hook,
  ProviderState,
  Tracker,
  WholeAnswer,
} from '../support/vendors/provider-servers/provider.ts';

/** A comment as Jira holds it, and its texts alone. */
interface Comment {
  readonly id: string;
  readonly author: string;
  readonly body: unknown;
  readonly text: string;
}

interface Surroundings {
  readonly provider: ProviderState<Tracker>;
  readonly tell: (delivery: string, hook: () => Hook) => void;
  readonly secret: string;
}

export const WORKSYNC = 'account-of-worksync';
const PERSON = 'account-of-a-person';
const ECHO = 'echo';
const EVENT = fixture('jira', 'comment_created');
const DONE = { id: '31', to: { name: 'Done', statusCategory: { key: 'done' } } };
/** Numbers of issues begin after it, see `jiraTracker`. */
const FIRST_ID = 10_100;

/** Whether the delivery of this id tells of a comment that worksync wrote. */
export function isEcho(delivery: string): boolean {
  return delivery.startsWith(`${ECHO}-`);
}

/** Writes to Jira: comments and closings. */
export function createJiraWrites({ provider, tell, secret }: Surroundings) {
  const comments = new Map<number, Comment[]>();
  let written = 0;

  const on = (number: number): readonly Comment[] => comments.get(number) ?? [];

  function keep(number: number, comment: Comment, event: 'comment_created' | 'comment_updated'): void {
    const others = on(number).filter(({ id }) => id !== comment.id);
    comments.set(number, [...others, comment]);
    const issue = provider.change(number, {});
    const delivery = `${comment.author === WORKSYNC ? ECHO : 'comment'}-${++written}`;
    tell(delivery, () => hookOf(issue, comment, event, delivery));
  }

  function hookOf({ number, updated }: HeldIssue, comment: Comment, webhookEvent: string, delivery: string): Hook {
    const author = { accountId: comment.author };
    const body = JSON.stringify(
      altered(EVENT, {
        ...{ webhookEvent, timestamp: updated },
        ...{ 'issue.id': String(FIRST_ID + number), 'issue.key': `ENG-${number}` },
        ...{ 'comment.id': comment.id, 'comment.body': comment.text },
        ...{ 'comment.author': author, 'comment.updateAuthor': author },
      }),
    );
    const headers = {
      'content-type': 'application/json',
      'x-atlassian-webhook-identifier': delivery,
      'x-hub-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    };
    return { headers, body };
  }

  function close(number: number): void {
    const issue = provider.change(number, { state: 'done' });
    const delivery = `closing-${++written}`;
    const happening = (): Happening => ({ event: 'updated', delivery, sentAt: issue.updated });
    tell(delivery, () => provider.vendor.issueHook(issue, happening()) as Hook);
  }

  function answerOn(number: number, rest: string, { method, body }: Asked): WholeAnswer | undefined {
    if (rest === '/transitions') {
      if (method === 'GET') return json(200, { transitions: [DONE] });
      close(number);
      return json(204, undefined);
    }
    const [, id] = /^\/comment(?:\/(\d+))?$/.exec(rest) ?? ['none'];
    if (id === 'none') return undefined;
    if (method === 'GET') return json(200, { comments: on(number).map(shown).reverse(), total: on(number).length });
    const present = on(number).find((each) => each.id === id);
    if (id !== undefined && !present) return json(404, { errorMessages: ['no such comment'] });
    const document = (JSON.parse(body) as { body: unknown }).body;
    const author = present?.author ?? WORKSYNC;
    const comment = { id: id ?? String(20_000 + ++written), author, body: document, text: textOf(document) };
    keep(number, comment, present ? 'comment_updated' : 'comment_created');
    return json(present ? 200 : 201, shown(comment));
  }

  return {
    /** Undefined where the request is about none of it. */
    answer(asked: Asked): WholeAnswer | undefined {
      const path = asked.url.pathname;
      if (path === '/rest/api/3/myself') return json(200, { accountId: WORKSYNC, displayName: 'worksync' });
      const project = /^\/rest\/api\/3\/project\/(\d+)$/.exec(path)?.[1];
      if (project !== undefined) return json(200, { id: project, key: 'ENG', projectTypeKey: 'software' });
      const [, id, rest = ''] = /^\/rest\/api\/3\/issue\/(\d+)(\/.*)$/.exec(path) ?? [];
      if (id === undefined) return undefined;
      const issue = provider.issues.get(Number(id) - FIRST_ID);
      if (!issue || issue.isDeleted) return json(404, { errorMessages: ['no such issue'] });
      return answerOn(issue.number, rest, asked);
    },
    remark(number: number, text: string) {
      const issue = provider.issues.get(number);
      if (!issue || issue.isDeleted) return;
      const body = { type: 'doc', version: 1, content: [{ type: 'paragraph', content: [{ type: 'text', text }] }] };
      keep(number, { id: String(20_000 + ++written), author: PERSON, body, text }, 'comment_created');
    },
    commentsOn: on,
  };
}

function shown({ id, author, body }: Comment): object {
  return { id, body, author: { accountId: author }, updateAuthor: { accountId: author } };
}

/** The texts of a document, each block on a line of its own. */
function textOf(node: unknown): string {
  const { text, type, content = [] } = node as { text?: string; type?: string; content?: readonly unknown[] };
  const within = content.map(textOf).join(type === 'doc' ? '\n' : '');
  return (text ?? (type === 'hardBreak' ? '\n' : '')) + within;
}

function json(status: number, body: unknown): WholeAnswer {
  const text = body === undefined ? '' : JSON.stringify(body);
  return { status, headers: { 'content-type': 'application/json' }, body: text };
}
