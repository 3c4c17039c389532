import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Connection } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import type { Api } from './api.ts';
import { REPOSITORY } from './options.ts';
import { createPresentNames } from './present-names.ts';

type WriteBack = Required<Pick<Connection, 'comment' | 'close'>>;

const number = z.string().regex(/^\d{1,16}$/);
const locator = z.object({ repoId: number, repository: z.string().regex(REPOSITORY), number });
const issueLocator = locator.extend({ id: number });

/** More comments than an issue can have. */
const MOST_PAGES = 100;

export function createWriteBack(api: Api, appApi: Api | undefined, clock: Clock): WriteBack {
  const author = createAuthor(api, appApi);
  const names = createPresentNames(api, clock);
  return {
    async comment(reference, { marker, text }, signal) {
      const wanted = readLocator(locator, reference);
      const body = text.includes(marker) ? text : `${text}\n\n${marker}`;
      await names.at(wanted, signal, async (repository) => {
        const path = `${repository}/issues/${wanted.number}/comments`;
        const isOurs = await author(signal);
        const found = await findComment(api, path, (each) => each.body.includes(marker) && isOurs(each), signal);
        if (found?.body === body) return;
        if (found) await edit(api, `${repository}/issues/comments/${found.id}`, { body }, signal);
        else await post(api, path, { body }, signal);
      });
      return undefined;
    },
    async close(reference, signal) {
      if (reference.kind === 'pull_request') throw neverClosed(reference);
      const wanted = readLocator(issueLocator, reference);
      await names.at(wanted, signal, async (repository) => {
        const path = `${repository}/issues/${wanted.number}`;
        const answer = await api.get(path, { signal });
        const issue = parseAnswer(issueAnswer, readAnswer(answer, `GET ${path}`), `GET ${path}`);
        if (String(issue.id) !== wanted.id)
          throw new SyncError('not_found', `${path} is another issue than ${reference.key}`);
        if (issue.state === 'closed') return;
        await edit(api, path, { state: 'closed', state_reason: 'completed' }, signal);
      });
    },
  };
}

function neverClosed({ key }: ItemReference): SyncError {
  return new SyncError('refused', `${key} is a pull request: those are merged or closed by people`, {
    errorCode: 'unsupported_field',
    hint: 'Switch closing off for this connection, or let it follow issues only.',
  });
}

const comment = z.object({
  id: z.int().positive(),
  body: z.string().catch(''),
  user: z.object({ id: z.int() }).nullish().catch(undefined),
  performed_via_github_app: z.object({ id: z.int() }).nullish().catch(undefined),
});
type Comment = z.infer<typeof comment>;

/** The oldest that is meant, so that of two the same one is kept up to date. */
async function findComment(api: Api, path: string, isMeant: (each: Comment) => boolean, signal: AbortSignal) {
  let query: string | undefined = 'per_page=100';
  for (let count = 0; query !== undefined && count < MOST_PAGES; count++) {
    const answer = await api.get(path, { query, signal });
    const found = parseAnswer(z.array(comment), readAnswer(answer, `GET ${path}`), `GET ${path}`).find(isMeant);
    if (found) return found;
    query = api.nextQuery(answer, path);
  }
  return undefined;
}

const identity = z.object({ id: z.int() });

/**
 * Tells our comments from those of people, who may quote one of ours with its marker. Asked once. Tokens of workflows
 * have no user: there the marker alone must do.
 */
function createAuthor(api: Api, appApi: Api | undefined): (signal: AbortSignal) => Promise<(each: Comment) => boolean> {
  let known: ((each: Comment) => boolean) | undefined;
  const ask = async (signal: AbortSignal) => {
    const path = appApi ? '/app' : '/user';
    try {
      const answer = await (appApi ?? api).get(path, { signal });
      const { id } = parseAnswer(identity, readAnswer(answer, `GET ${path}`), `GET ${path}`);
      return appApi
        ? (each: Comment) => each.performed_via_github_app?.id === id
        : (each: Comment) => each.user?.id === id;
    } catch (thrown) {
      if (!appApi && asSyncError(thrown).code === 'forbidden') return () => true;
      throw thrown;
    }
  };
  return async (signal) => {
    known ??= await ask(signal);
    return known;
  };
}

const issueAnswer = z.object({ id: z.int().positive(), state: z.string() });

async function edit(api: Api, path: string, body: object, signal: AbortSignal): Promise<void> {
  refuse422(await api.write('PATCH', path, { body, signal }), path);
}

async function post(api: Api, path: string, body: object, signal: AbortSignal): Promise<void> {
  refuse422(await api.write('POST', path, { body, signal }), path);
}

function refuse422(answer: Awaited<ReturnType<Api['write']>>, path: string): void {
  if (answer.status !== 422) return;
  const said = onOneLine(answer.body.toString('utf8'));
  throw new SyncError('refused', `${path}: GitHub refused the write: ${said}`, { status: 422 });
}
