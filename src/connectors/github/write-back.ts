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

type WriteBack = Required<Pick<Connection, 'comment' | 'close'>>;

const number = z.string().regex(/^\d{1,16}$/);
const locator = z.object({ repoId: number, repository: z.string().regex(REPOSITORY), number });
type Wanted = z.infer<typeof locator>;
const issueLocator = locator.extend({ id: number });

/** More comments than an issue can have. */
const MOST_PAGES = 100;

export function createWriteBack(api: Api, appApi: Api | undefined, clock: Clock): WriteBack {
  const author = createAuthor(api, appApi);
  const repositories = createRepositories(api, clock);
  return {
    async comment(reference, { marker, text }, signal) {
      const wanted = readLocator(locator, reference);
      const body = text.includes(marker) ? text : `${text}\n\n${marker}`;
      await repositories.at(wanted, signal, async (repository) => {
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
      await repositories.at(wanted, signal, async (repository) => {
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

const repositoryAnswer = z.object({ id: z.int(), full_name: z.string().regex(REPOSITORY) });

/** So long a name is believed to lead where it led. A repository that is renamed leaves its name to whoever wants it. */
const BELIEVED = 5 * 60_000;

/**
 * Writes are not redirected, so the repository's present name is asked for: by the name that it had, as documented, which leads
 * on to the present one; by its id where another repository has that name now.
 */
function createRepositories(api: Api, clock: Clock) {
  const known = new Map<string, { readonly name: string; readonly until: number }>();

  async function ask(path: string, signal: AbortSignal) {
    return parseAnswer(repositoryAnswer, readAnswer(await api.get(path, { signal }), `GET ${path}`), `GET ${path}`);
  }

  async function nameOf({ repoId, repository }: Wanted, signal: AbortSignal): Promise<string> {
    const held = known.get(repoId);
    if (held && held.until > clock.now()) return held.name;
    const named = await unlessAbsent(ask(`/repos/${repository}`, signal));
    const found = named && String(named.id) === repoId ? named : await ask(`/repositories/${repoId}`, signal);
    known.set(repoId, { name: found.full_name, until: clock.now() + BELIEVED });
    return found.full_name;
  }

  return {
    /** Does something at the repository's address. Where that fails the name may be the reason: it is asked for anew. */
    async at<Result>(wanted: Wanted, signal: AbortSignal, work: (path: string) => Promise<Result>): Promise<Result> {
      const path = `/repos/${await nameOf(wanted, signal)}`;
      try {
        return await work(path);
      } catch (thrown) {
        known.delete(wanted.repoId);
        throw thrown;
      }
    },
  };
}

/** A name that is gone, or belongs to somebody who shows it to nobody. */
async function unlessAbsent<Answer>(asked: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await asked;
  } catch (thrown) {
    if (asSyncError(thrown).code !== 'not_found') throw thrown;
    return undefined;
  }
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
