import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Finding, FOREIGN_EDITS, type ForeignEdit } from '../../src/model/foreign-edits.ts';
import { type Item, type PullRequest, pullRequestKey, type WorkItem, workItemKey } from '../../src/model/item.ts';
import { requestFetch } from '../../src/store/deliveries/wanted-fetches.ts';
import { findItem } from '../../src/store/items/items.ts';
import { findRunningSweep, readSweeps } from '../../src/store/workspace/workspace-sweeps.ts';
import type { PreparedRequest } from '../../src/sync/outbox/request.ts';
import { SWEEP, workspaceSweepJobs } from '../../src/sync/outbox/sweep-jobs.ts';
import { type ConnectorFacts, createRules } from '../../src/sync/reconcile/context.ts';
import { desiredRecord, differingFields } from '../../src/sync/reconcile/evaluate-record.ts';
import { createModelWorkspace } from '../support/fakes/model-workspace.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { drawn } from '../support/harness/depth.ts';
import { itemSource, PipelineWorld } from '../support/harness/pipeline-world.ts';
import { type OpenedStore, openStore } from '../support/harness/store.ts';
import { workspaceContext } from '../support/harness/workspace-context.ts';

/**
 * The table of `model/foreign-edits.ts`, line by line: whatever others do, in whatever order, and whenever the process dies, it
 * ends as the table says with the next sweep and the next turn; and beside the lists and the reads of the turn that costs one
 * request for each thing that is repaired.
 */

const DAY = 86_400_000;
const MINUTE = 60_000;
const THEN = Date.UTC(2026, 0, 4, 9);

const GITHUB: ConnectorFacts = { id: 'github', publicHost: 'github.com', capabilities: { supportsLabels: true } };
const JIRA: ConnectorFacts = { id: 'jira', publicHost: 'jira', capabilities: {} };
const SOURCES = [itemSource('github', GITHUB), itemSource('jira', JIRA)];
const RULES = createRules({
  ...{ trailers: [], links: [], grammars: [], triage: [], users: {} },
  ...{ addresses: ['https://work.example'], documents: true },
});

function pull(number: number, title: string): PullRequest {
  return {
    ...{ kind: 'pull_request', connector: 'github', host: 'github.com', repoId: '5001', identifier: String(number) },
    key: pullRequestKey('github', 'github.com', '5001', String(number)),
    ...{ updatedAt: THEN, url: `https://github.com/acme/app/pull/${number}`, title, state: 'open', labels: [] },
    description: number === 1 ? 'See https://work.example/documents/doc_1' : '',
    ...{ headBranch: `branch-${number}`, baseBranch: 'main' },
  };
}

function issue(number: number, title: string): WorkItem {
  return {
    ...{ kind: 'work_item', connector: 'jira', host: 'cloud', containerId: '1', identifier: `ENG-${number}` },
    key: workItemKey('jira', 'cloud', String(number)),
    ...{ updatedAt: THEN, url: `https://jira.example/browse/ENG-${number}`, title, state: 'open' },
  };
}

const nameOf = ({ repoId, identifier }: PullRequest) => `github/${repoId}/${identifier}`;

class World extends PipelineWorld {
  readonly clock = createTravellingClock();
  /** So small that the list has pages between which things may happen. */
  readonly workspace = createModelWorkspace(2);
  readonly pulls = [1, 2, 3, 4, 5].map((number) =>
    pull(number, ['BUG-1 door', 'BUG-2 roof'][number - 1] ?? 'A change'),
  );
  readonly issues = [issue(1, 'BUG-1 again'), issue(2, 'Other work')];
  /** Keys of what the provider does not have, or does not show, at present. */
  readonly removed = new Set<string>();
  readonly sent: PreparedRequest[] = [];

  constructor(store: OpenedStore) {
    super(store, SOURCES, RULES);
    for (const [at, key] of ['BUG-1', 'BUG-2', 'BUG-3'].entries()) {
      this.workspace.tasks.set(`t${at + 1}`, { taskId: `t${at + 1}`, key });
    }
    this.workspace.documents.set('doc_1', null);
  }

  get items(): readonly Item[] {
    return [...this.pulls, ...this.issues];
  }

  /** Everything is mirrored, linked and attached; the fifth pull request is gone since then. */
  async start(): Promise<void> {
    await this.kill();
    for (const item of this.items) await this.append(item.connector, 'webhook', item);
    await this.#rest();
    this.removed.add((this.pulls[4] as PullRequest).key);
    await this.sweepConnections();
    await this.#rest();
    await this.pass(MINUTE);
    this.sent.length = 0;
  }

  #told(item: Item): Item {
    return this.removed.has(item.key) ? { ...item, updatedAt: this.now, gone: true } : item;
  }

  readonly #fetched = (key: string) => this.#told(this.items.find((item) => item.key === key) as Item);

  protected override handle(prepared: PreparedRequest): unknown {
    this.sent.push(prepared);
    return this.workspace.handle(prepared);
  }

  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    this.now = this.clock.now();
  }

  fetch(): Promise<void> {
    return this.fetchAll(this.#fetched);
  }

  /** Asks for what is listed and known as gone, or held and not listed, as `sync/intake/sweeps.ts` does. */
  async sweepConnections(): Promise<void> {
    for (const { kind, key, connector: connection } of this.items) {
      const held = await findItem(this.store.query, key);
      if (!held || (held.gone === 1) === this.removed.has(key)) continue;
      const wish = { connection, reference: { kind, key, locator: {} }, deliveryId: 0, now: this.now };
      await requestFetch(this.store.query, wish);
    }
  }

  #jobs() {
    const quota = { requests: 200, window: 900_000 };
    const settings = { quota, workspace: { sweep: { everyMs: DAY } }, recordsPullRequests: true };
    return workspaceSweepJobs(workspaceContext({ store: this.store, clock: this.clock }, settings));
  }

  async sweep(): Promise<void> {
    await this.#jobs()
      .find(({ name }) => name === SWEEP)
      ?.run(new AbortController().signal);
  }

  /** The turn through what stands in no list; `reads`: the process dies after so many. */
  async turn(reads = Number.POSITIVE_INFINITY): Promise<void> {
    const stopping = new AbortController();
    let isDone = false;
    const before = this.#readsOfTurn();
    const run = this.#jobs()
      .find(({ name }) => name !== SWEEP)
      ?.run(stopping.signal)
      .finally(() => (isDone = true));
    while (!isDone) {
      await this.pass(MINUTE / 2);
      await this.pump(this.#fetched);
      if (this.#readsOfTurn() - before >= reads && !stopping.signal.aborted) stopping.abort();
    }
    await run;
    if (stopping.signal.aborted) await this.kill();
  }

  #readsOfTurn(): number {
    return this.sent.filter(({ action }) => action === 'read-links' || action === 'read-document').length;
  }

  #rest(): Promise<void> {
    return this.comeToRest(() => this.pass(61_000), this.#fetched);
  }

  /** Everything that is known to look is made to, to its end. */
  async sweepAll(): Promise<void> {
    await this.#rest();
    await this.sweepConnections();
    await this.#rest();
    // A round that was begun earlier may have looked before the last edit.
    if (await findRunningSweep(this.store.query)) throw new Error('a round did not end');
    // A list proves nothing about the tasks that were seen within the last hour.
    await this.pass(60 * MINUTE);
    await this.sweep();
    await this.#rest();
    await this.turn();
    // One that was interrupted goes on from where it was: what stood before is seen by the next.
    await this.turn();
    await this.#rest();
  }

  async found(): Promise<Readonly<Record<Finding, number>> | undefined> {
    return (await readSweeps(this.store.query)).last?.found;
  }

  /** Records that are not as their provider has them. */
  wrong(number: number): readonly string[] {
    const item = this.pulls[number - 1] as PullRequest;
    const held = this.workspace.records.get(nameOf(item));
    return held ? differingFields({ ...desiredRecord(item, GITHUB) }, held) : ['no record'];
  }

  editRecord(number: number, title: string): void {
    const name = nameOf(this.pulls[number - 1] as PullRequest);
    this.workspace.records.set(name, { ...this.workspace.records.get(name), title });
  }

  link(task: string, item: Item | undefined) {
    return this.workspace.linkOf(task, item?.url ?? '');
  }
}

const FOREIGN = {
  provider: 'github',
  repoId: '9',
  identifier: '9',
  title: 'Nobody follows it',
  url: 'https://x.example/9',
};

interface Way {
  readonly edit: (world: World) => void;
  /** Whether it ended as its line says. */
  readonly ends: (world: World) => boolean;
}

/** Each line of the table, on a thing of its own, so that any of them may come together. */
const WAYS: Readonly<Record<keyof typeof FOREIGN_EDITS, Way>> = {
  recordChanged: {
    edit: (world) => world.editRecord(1, 'By hand'),
    ends: (world) => world.wrong(1).length === 0,
  },
  recordRemoved: {
    edit: (world) => void world.workspace.records.delete('github/5001/2'),
    ends: (world) => world.wrong(2).length === 0,
  },
  recordChangedBack: {
    edit(world) {
      world.editRecord(4, 'By hand');
      world.editRecord(4, 'A change');
    },
    ends: (world) => world.wrong(4).length === 0,
  },
  recordAdded: {
    edit: (world) => void world.workspace.records.set('github/9/9', FOREIGN),
    ends: (world) => world.workspace.records.get('github/9/9') === FOREIGN,
  },
  pullLinkRemoved: {
    edit: (world) => world.workspace.removeLink('t2', world.pulls[1]?.url ?? ''),
    ends: (world) => world.link('t2', world.pulls[1]) === undefined,
  },
  pullLinkAdded: {
    edit: (world) => void world.workspace.addLink('t3', world.pulls[3]?.url ?? '', null),
    ends: (world) => world.link('t3', world.pulls[3])?.externalId === null,
  },
  itemLinkRemoved: {
    edit: (world) => world.workspace.removeLink('t1', world.issues[0]?.url ?? ''),
    ends: (world) => world.link('t1', world.issues[0]) === undefined,
  },
  itemLinkAdded: {
    edit: (world) => void world.workspace.addLink('t1', world.issues[1]?.url ?? '', null),
    ends: (world) => world.link('t1', world.issues[1])?.externalId === null,
  },
  taskChanged: {
    edit: (world) => void world.workspace.tasks.set('t1', { taskId: 't1', key: 'BUG-1', status: 'completed' }),
    ends: (world) => world.workspace.tasks.get('t1')?.status === 'completed',
  },
  taskRemoved: {
    edit: (world) => void world.workspace.tasks.delete('t3'),
    ends: (world) => !world.workspace.tasks.has('t3'),
  },
  documentMoved: {
    edit: (world) => void world.workspace.documents.set('doc_1', null),
    ends: (world) => world.workspace.documents.get('doc_1') === null,
  },
  itemRemoved: {
    edit: (world) => void world.removed.add(world.pulls[2]?.key ?? ''),
    ends: (world) => world.workspace.records.has('github/5001/3'),
  },
  itemRestored: {
    edit(world) {
      world.removed.delete(world.pulls[4]?.key ?? '');
      // Nothing of its time moves.
      world.pulls[4] = { ...(world.pulls[4] as PullRequest), labels: ['back'] };
    },
    ends: (world) => world.wrong(5).length === 0,
  },
};

type Name = keyof typeof FOREIGN_EDITS;
const NAMES = Object.keys(FOREIGN_EDITS) as Name[];
const lineOf = (name: Name): ForeignEdit => FOREIGN_EDITS[name];

async function inWorld(work: (world: World) => Promise<void>): Promise<void> {
  const store = await openStore({ file: ':memory:' });
  try {
    const world = new World(store);
    await world.start();
    await work(world);
  } finally {
    await store.close();
  }
}

const isWrite = ({ kind }: PreparedRequest) => kind !== 'read';

it.each(NAMES)('%s alone ends as the table says', async (name) => {
  await inWorld(async (world) => {
    WAYS[name].edit(world);
    await world.sweepAll();
    expect(WAYS[name].ends(world)).toBe(true);
    expect(world.sent.filter(isWrite)).toHaveLength(lineOf(name).writes);
    const { finding } = lineOf(name);
    const told = Object.entries((await world.found()) ?? {}).filter(([, count]) => count > 0);
    expect(told).toEqual(finding === undefined ? [] : [[finding, 1]]);
  });
});

const subset = fc.shuffledSubarray(NAMES, { minLength: 1 });

it('any of them together end as the table says, for the lists and one request for each that is repaired', async () => {
  await fc.assert(
    fc.asyncProperty(subset, async (names) => {
      await inWorld(async (world) => {
        for (const name of names) WAYS[name].edit(world);
        await world.sweepAll();
        expect(names.filter((name) => !WAYS[name].ends(world))).toEqual([]);
        expect(world.sent.filter(isWrite)).toHaveLength(names.filter((name) => lineOf(name).writes === 1).length);
        const count = (action: PreparedRequest['action']) => world.sent.filter((each) => each.action === action).length;
        expect(count('read-tasks')).toBe(1);
        const records = 5 + Number(names.includes('recordAdded')) - Number(names.includes('recordRemoved'));
        // Five stand there again, the one that was removed among them, before the list of the next round.
        expect(count('read-pull-requests')).toBe(Math.ceil(records / 2));
        // Two turns: one task, and one document as long as it stands where it was attached.
        expect(count('read-links')).toBe(2);
        expect(count('read-document')).toBe(names.includes('documentMoved') ? 1 : 2);
      });
    }),
    { numRuns: drawn(10, 3), seed: 20_261_122 },
  );
});

type Step = {
  readonly do: 'edit' | 'sweep' | 'send' | 'answer' | 'reconcile' | 'fetch' | 'connections' | 'kill' | 'turn';
};

it('whenever each of them comes, and whenever the process dies, they end as the table says', async () => {
  const steps = fc.array(
    fc.record({
      do: fc.constantFrom<Step['do'][]>(
        ...(['edit', 'edit', 'sweep', 'send', 'send', 'answer', 'answer', 'reconcile', 'fetch'] as const),
        ...(['connections', 'kill', 'turn'] as const),
      ),
    }),
    { maxLength: 60, size: 'max' },
  );
  await fc.assert(
    fc.asyncProperty(subset, steps, async (names, course) => {
      await inWorld(async (world) => {
        const left = [...names];
        for (const { do: step } of course) {
          await world.pass(3_000);
          if (step === 'edit') {
            const name = left.shift();
            if (name) WAYS[name].edit(world);
          } else if (step === 'connections') await world.sweepConnections();
          else if (step === 'turn') await world.turn(1);
          else await world[step]();
        }
        for (const name of left) WAYS[name].edit(world);
        await world.sweepAll();
        expect(names.filter((name) => !WAYS[name].ends(world))).toEqual([]);
      });
    }),
    { numRuns: drawn(14), seed: 20_261_123 },
  );
});
