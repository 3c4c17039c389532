import type { HttpRequest } from '../../src/platform/http/http-client.ts';
import type { Fields } from '../bench/quota/references/trace.ts';
import type { TravellingClock } from '../support/fakes/travelling-clock.ts';
import { bitbucketVendor } from '../support/vendors/provider-servers/bitbucket.ts';
import { genericTracker } from '../support/vendors/provider-servers/generic.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import { gitlabVendor } from '../support/vendors/provider-servers/gitlab.ts';
import { jiraTracker } from '../support/vendors/provider-servers/jira.ts';
import { linearTracker } from '../support/vendors/provider-servers/linear.ts';
import {
  type Asked,
  createProvider,
  type Hook,
  type ProviderState,
  type Tracker,
  type Vendor,
} from '../support/vendors/provider-servers/provider.ts';
import type { Look } from './history.ts';
import { createJiraWrites, WORKSYNC } from './jira-writes.ts';
import type { Network } from './network.ts';
import { BLANK, createPast, createRenamed, signed } from './past.ts';
import type { Forge, Happening, Plan, PullChange, TrackerName } from './plan.ts';
import { type Written, write } from './prose.ts';

const SECRET = 'a webhook secret for tests only';

const VENDORS: Readonly<Record<Forge, () => Vendor>> = {
  github: () => githubVendor(SECRET),
  gitlab: () => gitlabVendor(SECRET),
  bitbucket: () => bitbucketVendor(SECRET),
};
const TRACKERS: Readonly<Record<TrackerName, () => Tracker>> = {
  jira: () => jiraTracker(SECRET),
  linear: () => linearTracker(SECRET),
  generic: genericTracker,
};
const PAGES: Readonly<Record<Forge, string>> = {
  github: 'https://github.com/acme/app/pull/',
  gitlab: 'https://gitlab.com/acme/app/-/merge_requests/',
  bitbucket: 'https://bitbucket.org/acme/app/pull-requests/',
};

/** All vendors, each with its own clock that never jumps, and what became of everything there. */
export function openProviders(
  { forges, trackers, writeBack, happenings }: Pick<Plan, 'forges' | 'trackers' | 'writeBack' | 'happenings'>,
  clock: TravellingClock,
  network: Network,
) {
  const vendors = new Map(forges.map((name) => [name, createProvider(VENDORS[name](), { clock })]));
  const desks = new Map(trackers.map((name) => [name, createProvider(TRACKERS[name](), { clock })]));
  const all = new Map<string, ProviderState<Vendor | Tracker>>([...vendors, ...desks]);
  const renamed = createRenamed();
  const past = createPast(clock.now());
  for (const each of happenings) {
    const vendor = each.do === 'backfill' ? vendors.get(each.forge) : undefined;
    if (each.do === 'backfill' && vendor) past.begin(each.forge, vendor, each.pulls);
  }
  let tell: (connection: string, delivery: string, hook: () => Hook) => void = () => undefined;
  const jira = desks.get('jira');
  const jiraWrites =
    jira && createJiraWrites({ provider: jira, secret: SECRET, tell: (...told) => tell('jira', ...told) });
  for (const [name, provider] of all) {
    const writes = name === 'jira' ? jiraWrites : undefined;
    const answer = (request: HttpRequest) =>
      writes?.answer(askedOf(request)) ?? provider.answer(askedOf(request), request.headers ?? {});
    const handle = name === 'github' ? (request: HttpRequest) => renamed.answer(request, answer) : answer;
    network.open(`https://${name}.test`, handle);
  }
  const versions = new Map<string, number>();
  let added = 0;
  const written = new Map<string, Written & { readonly item: string | undefined }>();

  function describe(pull: string, { prose, description }: PullChange): string | undefined {
    if (prose === undefined) {
      if (description !== undefined) written.delete(pull);
      return description;
    }
    const [desk] = desks.values();
    const issue = desk?.issues.get(prose.item);
    const words = write(prose, issue ? (desk?.vendor.page(issue) ?? '') : '');
    written.set(pull, { ...words, item: issue && words.isOfItem ? desk?.vendor.itemKey(issue) : undefined });
    return words.text;
  }

  function versionOf(item: string): number {
    const version = (versions.get(item) ?? 0) + 1;
    versions.set(item, version);
    return version;
  }

  function changePull(forge: Forge, number: number, change: PullChange, delivery: string): (() => Hook) | undefined {
    const provider = vendors.get(forge);
    if (!provider) return undefined;
    const before = provider.pulls.get(number)?.fields ?? BLANK;
    // Bitbucket lets nobody change what is merged or declined.
    if (forge === 'bitbucket' && before.state !== 'open') return undefined;
    const description = describe(`${forge}/${number}`, change);
    const fields = changedFields(before, { ...change, ...(description !== undefined && { description }) });
    // It says which version of the pull request it is, so that a checker knows without the program.
    const named = change.names ?? Number(/BUG-(\d+)/.exec(before.title)?.[1] ?? 0);
    const title = `${named > 0 ? `BUG-${named}: ` : ''}Change v${versionOf(`${forge}/${number}`)}`;
    const now = clock.now();
    const line = { at: 0, connection: forge, item: `app/${number}`, updated: now, event: 'edited' };
    const pull = provider.happen({ ...line, fields: { ...fields, title } }, now);
    const event = before === BLANK ? 'opened' : fields.state === before.state ? 'edited' : 'closed';
    const hook = () => provider.vendor.hook(pull, event, delivery);
    return forge === 'github' ? () => renamed.hook(hook(), SECRET) : hook;
  }

  function changeIssue(
    { tracker: name, number, change: wish, names }: Extract<Happening, { do: 'issue' }>,
    delivery: string,
  ) {
    const provider = desks.get(name);
    if (!provider) return undefined;
    const before = provider.issues.get(number);
    if (before?.isDeleted || (!before && wish === 'deleted')) return undefined;
    const named = names ?? Number(/BUG-(\d+)/.exec(before?.fields.title ?? '')?.[1] ?? 0);
    const title = `${named > 0 ? `BUG-${named}: ` : ''}Item v${versionOf(`${name}/${number}`)}`;
    const changes = {
      open: { title, state: 'open' },
      edited: { title },
      done: { title, state: 'done' },
      deleted: 'deleted',
    } as const;
    const issue = provider.change(number, changes[wish]);
    const event = wish === 'deleted' ? 'deleted' : before ? 'updated' : 'created';
    const hook = () => provider.vendor.issueHook(issue, { event, delivery, sentAt: clock.now() });
    return hook() && (hook as () => Hook);
  }

  return {
    connections: (poll: number): Readonly<Record<string, object>> =>
      Object.fromEntries(
        [...all].map(([name, { vendor }]) => {
          const webhookSecrets = 'secret' in vendor ? vendor.secret : SECRET;
          const own = { connector: vendor.id, ...vendor.options(`https://${name}.test`) };
          const written = name === 'jira' && writeBack ? { writeBack: { comment: true, close: true } } : {};
          return [name, { ...own, ...written, webhookSecrets, poll: `${poll}m`, sweep: '1h' }];
        }),
      ),
    change: (happening: Extract<Happening, { do: 'pull' | 'issue' }>, delivery: string) =>
      happening.do === 'pull'
        ? changePull(happening.forge, happening.number, happening.change, delivery)
        : changeIssue(happening, delivery),
    /** Adds a person's comment to a pull request at GitHub. Returns undefined if GitHub has no pull request. */
    comment(number: number, delivery: string): (() => Hook) | undefined {
      const github = vendors.get('github');
      const before = github?.pulls.get(number);
      if (!github || !before) return undefined;
      const now = clock.now();
      const line = { at: 0, connection: 'github', item: `app/${number}`, updated: now, event: 'commented' };
      const pull = github.happen({ ...line, fields: before.fields }, now);
      return () => renamed.hook(github.vendor.hook(pull, 'commented', delivery), SECRET);
    },
    rename: renamed.rename,
    /** A webhook of GitHub of which nothing can be read, though it is GitHub's. */
    garbled: ({ headers, body }: Hook) => signed(headers, body.replaceAll('"number":', '"numero":'), SECRET),
    past,
    /** So many old pull requests more, of which nothing tells. */
    addOld(forge: Forge, count: number) {
      const vendor = vendors.get(forge);
      if (vendor) past.begin(forge, vendor, count, ADDED_FROM + added);
      added += count;
    },
    held: (): Pick<Look, 'pulls' | 'issues'> => ({
      pulls: [...vendors].flatMap(([name, { vendor, pulls }]) =>
        [...pulls.values()].map((pull) => {
          const url = `${PAGES[name]}${pull.number}`;
          const urls = name === 'github' ? renamed.urls(url) : [url];
          const { keys = [], item } = written.get(`${name}/${pull.number}`) ?? {};
          const named = [...keys, /BUG-\d+/.exec(pull.fields.title)?.[0] ?? ''];
          const isUnheard = past.isUnheard(name, pull.number);
          const { title, state, draft: isDraft } = pull.fields;
          const facts = { title, state, isDraft, created: pull.created, ended: pull.merged };
          return { record: vendor.record(pull), urls, ...facts, named, item, isUnheard };
        }),
      ),
      issues: [...desks].flatMap(([name, { vendor, issues }]) =>
        [...issues.values()].map((issue) => {
          const isWanted = !issue.isDeleted && issue.fields.state === 'open';
          const isCommented = name === 'jira' && writeBack && !issue.isDeleted;
          const comments = isCommented ? { comments: jiraWrites?.commentsOn(issue.number) } : {};
          const what = { key: vendor.itemKey(issue), url: vendor.page(issue), title: issue.fields.title };
          return { ...what, isWanted, ...comments };
        }),
      ),
    }),
    unanswered: () => [...all.values()].flatMap(({ unanswered }) => unanswered),
    /** Calls with the webhook of each write of worksync or a person. */
    onWritten: (call: typeof tell) => void (tell = call),
    remark(pick: number): { readonly url: string; readonly text: string } | undefined {
      const present = [...(jira?.issues.values() ?? [])].filter(({ isDeleted }) => !isDeleted);
      const issue = present[pick % Math.max(1, present.length)];
      if (!jira || !issue) return undefined;
      // Some quote what worksync wrote.
      const quoted = jiraWrites?.commentsOn(issue.number).find(({ author }) => author === WORKSYNC)?.text ?? '';
      const text = `Remark ${clock.elapsed()}: ${quoted}`;
      jiraWrites?.remark(issue.number, text);
      return { url: jira.vendor.page(issue), text };
    },
  };
}

/** A merged pull request stays merged. */
function changedFields(before: Fields, { state, draft, labels, reviewers, description }: PullChange): Fields {
  return {
    ...before,
    state: before.state === 'merged' ? before.state : (state ?? before.state),
    draft: draft ?? before.draft,
    labels: labels ?? before.labels,
    reviewers: reviewers ?? before.reviewers,
    description: description ?? before.description,
  };
}

/** No plan has so large a number. */
const ADDED_FROM = 3_001;

function askedOf({ method, url, body }: HttpRequest): Asked {
  return { method, url: new URL(url), body: String(body ?? '') };
}
