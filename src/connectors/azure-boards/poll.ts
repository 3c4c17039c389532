import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Shape } from '../../lib/shape.ts';
import { workItemKey } from '../../model/item.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition, SweepPage } from '../connector.ts';
import { parseAnswer, readable, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP } from '../kit/turns.ts';
import { type Api, malformed } from './api.ts';
import { enrich } from './enrich.ts';
import type { Directory } from './projects.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

const IDS_AT_ONCE = 10_000;
/** Opaque, and sent back as it came: anything that looks like an address is none. */
const TOKEN = /^[\w+/=.;~-]{1,1000}$/;

/** What is looked at of a page. */
const KEPT: Shape = { values: schema.KEPT, isLastBatch: true, continuationToken: true };

const batch = z.object({
  values: z.array(z.unknown()),
  isLastBatch: z.boolean(),
  continuationToken: z.string().optional(),
});

/**
 * One page of a walk over a project's work items, as the reporting API lists them: the latest revision of each that was
 * changed since a time, deleted ones among them, in an order that only grows at its end. So what changes meanwhile hides
 * nothing, a page costs one request whatever was changed, and a deletion needs no event. (A query by WIQL gives ids
 * alone, cuts times to days unless told, and knows nothing of what was deleted.)
 *
 * The first walk reads all of it, and stores what is not done yet, or has changed since the walk began.
 */
export async function pollWorkItems(
  api: Api,
  directory: Directory,
  position: PollPosition,
  signal: AbortSignal,
): Promise<PollPage> {
  const isFirstWalk = position.watermark === undefined;
  const since = isFirstWalk ? undefined : new Date(Date.parse(position.watermark) - OVERLAP).toISOString();
  const found = await revisions(api, directory, { unit: position.unit, since, page: position.page }, signal);
  const began = Date.parse(position.startedAt) - OVERLAP;
  const stored = isFirstWalk ? found.items.filter((item) => !isDone(item) || changedAt(item) >= began) : found.items;
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: writeJson(stored),
    next: found.next,
    newest: isFirstWalk ? firstWalkStart(position, found.answer) : newest(found.items.map(changedAt), found.answer),
  };
}

interface Wanted {
  readonly unit: string;
  readonly since: string | undefined;
  readonly page: string | undefined;
}

async function revisions(api: Api, directory: Directory, { unit, since, page }: Wanted, signal: AbortSignal) {
  if (page !== undefined && !TOKEN.test(page))
    throw new SyncError('internal', `the stored page of a walk is not one of Azure's: ${page.slice(0, 40)}`);
  const path = `/${encodeURIComponent(unit)}/_apis/wit/reporting/workitemrevisions`;
  const query = {
    includeDeleted: 'true',
    includeLatestOnly: 'true',
    includeIdentityRef: 'true',
    $expand: 'fields',
    ...(page === undefined ? (since === undefined ? {} : { startDateTime: since }) : { continuationToken: page }),
  };
  const { content, answer } = await api.get(path, query, signal, KEPT);
  const data = parseAnswer(batch, content, `GET ${path}`);
  return { items: await enriched(data.values, unit, directory, signal), next: nextOf(data, page, path), answer };
}

/** One after the other: what the first looks up the others find kept. */
async function enriched(values: readonly unknown[], unit: string, directory: Directory, signal: AbortSignal) {
  const items: unknown[] = [];
  if (values.length === 0) return items;
  const project = await directory.project(unit, signal);
  for (const value of values) items.push(await enrich(value, project, directory, signal));
  return items;
}

function nextOf(found: z.infer<typeof batch>, page: string | undefined, path: string): string | undefined {
  if (found.isLastBatch) return undefined;
  const { continuationToken: token } = found;
  if (token !== undefined && TOKEN.test(token) && token !== page) return token;
  throw malformed(`GET ${path}: the next batch has no usable name`);
}

const timed = z.object({ fields: z.object({ 'System.ChangedDate': z.string() }) });
const judged = z.object({ category: z.enum(['Completed', 'Removed']) });

/** Epoch milliseconds; NaN where it cannot be read: such an element is kept, for `translate` to judge. */
function changedAt(item: unknown): number {
  const data = readable(timed, item);
  return data ? Date.parse(data.fields['System.ChangedDate']) : Number.NaN;
}

function isDone(item: unknown): boolean {
  return readable(judged, item) !== undefined;
}

/** One page of everything that was changed since a time; the API lists the oldest change first. */
export async function historyOfWorkItems(
  api: Api,
  directory: Directory,
  { unit, since, page }: HistoryPosition,
  signal: AbortSignal,
): Promise<HistoryPage> {
  const { items, next } = await revisions(api, directory, { unit, since, page }, signal);
  return { event: SHAPES.list, body: writeJson(items), ...(next === undefined ? {} : { next }) };
}

const ids = z.object({ workItems: z.array(z.object({ id: schema.itemId })) });

/** One page of the ids of all work items of a project, upwards: each begins behind the one before. */
export async function sweepWorkItems(
  api: Api,
  directory: Directory,
  organizationId: string,
  { unit, page = '0' }: { readonly unit: string; readonly page: string | undefined },
  signal: AbortSignal,
): Promise<SweepPage> {
  if (!/^\d{1,16}$/.test(page)) throw new SyncError('internal', 'the stored page of a sweep is not one of ours');
  const { id: projectId } = await directory.project(unit, signal);
  const path = `/${projectId}/_apis/wit/wiql`;
  const query = `SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND [System.Id] > ${page} ORDER BY [System.Id]`;
  const answer = await api.send(
    { method: 'POST', path, query: { $top: String(IDS_AT_ONCE) }, body: { query } },
    signal,
  );
  const data = parseAnswer(ids, answer, `POST ${path}`);
  const found = data.workItems.map(({ id }) => id);
  const last = found.at(-1);
  return {
    keys: found.map((id) => workItemKey('azure-boards', organizationId, String(id))),
    containers: [projectId],
    ...(found.length < IDS_AT_ONCE || last === undefined ? {} : { next: String(last) }),
  };
}
