import fc from 'fast-check';
import { expect, it } from 'vitest';
import { entity } from '../../src/model/change.ts';
import { isAutomatic, type PullRequest } from '../../src/model/item.ts';
import { findEntity } from '../../src/store/changes/entities.ts';
import { addDifference, findChange } from '../../src/store/changes/outbox-rows.ts';
import { pendingDeliveries } from '../../src/store/deliveries/inbox.ts';
import type { PreparedRequest } from '../../src/sync/outbox/request.ts';
import { type ConnectorFacts, PLAIN_RULES } from '../../src/sync/reconcile/context.ts';
import { desiredRecord, differingFields } from '../../src/sync/reconcile/evaluate-record.ts';
import { createModelWorkspace } from '../support/fakes/model-workspace.ts';
import { drawn } from '../support/harness/depth.ts';
import { itemSource, type Outcome, PipelineWorld } from '../support/harness/pipeline-world.ts';
import { type OpenedStore, openStore } from '../support/harness/store.ts';

/**
 * The whole way from deliveries to the workspace, without HTTP: the real reconcile and the real preparing and settling
 * of the outbox over a real database, a model of the provider and a model of the workspace. Whatever the order, the
 * losses and what people do meanwhile: once all is delivered and sent, the workspace holds what it should.
 */

const CONNECTION = 'github';
const VENDOR: ConnectorFacts = {
  id: 'github',
  publicHost: 'github.com',
  capabilities: { supportsLabels: true, supportsDraft: true, reopensClosed: true },
};
const SOURCE = itemSource(CONNECTION, VENDOR);
const TASKS = ['BUG-1', 'BUG-2'] as const;

type Edit = Partial<Pick<PullRequest, 'title' | 'headBranch' | 'state' | 'draft' | 'labels'>>;
type Step =
  | { do: 'edit'; pull: number; edit: Edit; sameTime: boolean; whole: boolean }
  | { do: 'deliver' | 'repeat' | 'answer'; pick: number }
  | { do: 'send' | 'send and wait'; outcome: Outcome }
  | { do: 'reconcile' | 'catch up' | 'fetch' | 'kill' | 'read tasks' | 'read records' }
  | { do: 'task'; task: number }
  | { do: 'link by hand' | 'unlink by hand'; pull: number; task: number };

const edit: fc.Arbitrary<Edit> = fc.record(
  {
    title: fc.constantFrom('A change', 'BUG-1 door', 'BUG-1, BUG-2'),
    headBranch: fc.constantFrom('feature', 'bug-2'),
    state: fc.constantFrom('open', 'closed', 'merged'),
    draft: fc.boolean(),
    labels: fc.constantFrom([], ['x']),
  },
  { requiredKeys: [] },
);
const small = fc.nat({ max: 1 });
const pick = fc.nat({ max: 5 });
const OUTCOMES: Outcome[] = ['lost after', 'lost before', 'unsent', 'failed after', 'failed before'];
const outcome = fc.oneof({ weight: 5, arbitrary: fc.constant<Outcome>('answered') }, fc.constantFrom(...OUTCOMES));
const does = <Name extends string>(name: Name) => fc.constant(name);

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: does('edit'), pull: small, edit, sameTime: fc.boolean(), whole: fc.boolean() }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constantFrom('deliver', 'deliver', 'repeat'), pick }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constantFrom('reconcile', 'catch up') }) },
  { weight: 10, arbitrary: fc.record({ do: fc.constantFrom('send', 'send and wait'), outcome }) },
  { weight: 6, arbitrary: fc.record({ do: does('answer'), pick }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('fetch', 'kill', 'read tasks', 'read records') }) },
  { weight: 2, arbitrary: fc.record({ do: does('task'), task: small }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('link by hand', 'unlink by hand'), pull: small, task: small }),
  },
);

class World extends PipelineWorld {
  readonly workspace = createModelWorkspace();
  readonly provider: PullRequest[] = [1, 2].map((number) => opened(number));
  /** Deliveries that the provider has not sent yet, and all that it ever made. */
  readonly unsent: PullRequest[] = [];
  readonly made: PullRequest[] = [];
  /** Links that a person took away after they were known to stand, and whose text never stopped naming the task. */
  readonly takenAway = new Set<string>();
  readonly unnamedOnce = new Set<string>();
  /** Links that a person took away at any time: whether they are to come back depends on what was known by then. */
  readonly everTaken = new Set<string>();
  /** Links that a person made and nobody took away. */
  readonly byHand = new Set<string>();

  constructor(store: OpenedStore) {
    super(store, [SOURCE], PLAIN_RULES);
    for (const pull of this.provider) this.#say(pull);
  }

  async take(step: Step): Promise<void> {
    // Longer than what a change may wait to be merged with later ones.
    this.now += 3_000;
    switch (step.do) {
      case 'edit':
        return this.#edit(step);
      case 'deliver':
        return this.#deliver(this.unsent.splice(step.pick % Math.max(1, this.unsent.length), 1));
      case 'repeat':
        return this.#deliver([this.made[step.pick % this.made.length] as PullRequest]);
      case 'reconcile':
        return this.reconcile();
      case 'catch up':
        await this.#deliver(this.unsent.splice(0));
        return this.reconcile();
      case 'fetch':
        return this.fetchAll(this.#fetched);
      case 'send':
        return void (await this.send(step.outcome));
      case 'send and wait':
        if (await this.send(step.outcome)) await this.answer(this.inFlight.length - 1);
        return;
      case 'answer':
        return this.answer(step.pick);
      case 'kill':
        return this.kill();
      case 'read tasks':
        return this.readTasks();
      case 'read records':
        return this.readRecords();
      case 'task':
        return this.#makeTask(step.task);
      case 'link by hand':
        return this.#linkByHand(step.pull, step.task);
      case 'unlink by hand':
        return this.#unlinkByHand(step.pull, step.task);
    }
  }

  #say(item: PullRequest): void {
    this.unsent.push(item);
    this.made.push(item);
  }

  #edit({ pull, edit: drawn, sameTime, whole }: Extract<Step, { do: 'edit' }>): void {
    const before = this.provider[pull] as PullRequest;
    const updatedAt = sameTime ? before.updatedAt : before.updatedAt + 1_000;
    // No provider takes a merge back.
    const edit = before.state === 'merged' ? { ...drawn, state: before.state } : drawn;
    const after = { ...before, ...edit, updatedAt };
    this.provider[pull] = after;
    for (const task of TASKS) if (names(before, task) && !names(after, task)) this.unnamedOnce.add(`${pull} ${task}`);
    const { kind, key, connector, host, repoId, identifier } = after;
    this.#say(whole ? after : { kind, key, connector, host, repoId, identifier, updatedAt, ...edit });
  }

  async #deliver(items: readonly PullRequest[]): Promise<void> {
    for (const item of items) await this.append(CONNECTION, 'webhook', item);
  }

  readonly #fetched = (key: string) => this.provider.find((pull) => pull.key === key) as PullRequest;

  protected override handle(prepared: PreparedRequest): unknown {
    return this.workspace.handle(prepared);
  }

  async readRecords(): Promise<void> {
    const read = { entity: entity.readPullRequests, kind: 'read', lane: 'read', weight: 1, waiting: [] } as const;
    await this.store.commit((query) => addDifference(query, { ...read, since: this.now, due: this.now }));
  }

  #makeTask(task: number): void {
    this.workspace.tasks.set(`t${task}`, { taskId: `t${task}`, key: TASKS[task] as string });
  }

  #linkByHand(pull: number, task: number): void {
    if (!this.workspace.tasks.has(`t${task}`) || this.workspace.linkOf(`t${task}`, urlOf(pull))) return;
    this.workspace.addLink(`t${task}`, urlOf(pull), null);
    this.byHand.add(`${pull} ${TASKS[task]}`);
    this.takenAway.delete(`${pull} ${TASKS[task]}`);
  }

  async #unlinkByHand(pull: number, task: number): Promise<void> {
    if (!this.workspace.linkOf(`t${task}`, urlOf(pull))) return;
    this.workspace.removeLink(`t${task}`, urlOf(pull));
    const link = `${pull} ${TASKS[task]}`;
    this.byHand.delete(link);
    this.everTaken.add(link);
    const name = entity.link((this.provider[pull] as PullRequest).key, `t${task}`);
    const row = await findEntity(this.store.query, name);
    const stood = row?.desired && row.known && !(await findChange(this.store.query, name));
    if (stood && (await pendingDeliveries(this.store.query, 1, 1)).length === 0) this.takenAway.add(link);
  }

  /** A daemon that has run for a while: both lists read, both tasks known, both pull requests recorded. */
  async start(): Promise<void> {
    for (const task of TASKS.keys()) this.#makeTask(task);
    await this.settleDown();
  }

  async settleDown(): Promise<void> {
    await this.#deliver(this.unsent.splice(0));
    await this.readTasks();
    const pass = () => {
      this.now += 61_000;
    };
    await this.comeToRest(pass, this.#fetched);
  }

  faults(): string[] {
    return this.provider.flatMap((pull, index) => [
      ...this.#recordFaults(pull),
      ...TASKS.flatMap((task, number) => this.#linkFaults(pull, index, task, `t${number}`)),
    ]);
  }

  #recordFaults(pull: PullRequest): string[] {
    const held = this.workspace.records.get(`github/${pull.repoId}/${pull.identifier}`);
    if (!held) return [`${pull.identifier}: no record`];
    const desired = { ...desiredRecord(pull, VENDOR) };
    return differingFields(desired, held).map((field) => `${pull.identifier}: ${field} is ${String(held[field])}`);
  }

  #linkFaults(pull: PullRequest, index: number, task: string, taskId: string): string[] {
    const link = this.workspace.linkOf(taskId, urlOf(index));
    const name = `${index} ${task}`;
    const automatic = link !== undefined && isAutomatic(link.externalId);
    if (this.byHand.has(name)) return link && !automatic ? [] : [`${name}: the link made by hand is gone`];
    const wanted = names(pull, task) && this.workspace.tasks.has(taskId);
    if (this.takenAway.has(name) && !this.unnamedOnce.has(name)) {
      return automatic ? [`${name}: was taken away by a person and is back`] : [];
    }
    if (automatic && !wanted) return [`${name}: an automatic link that nobody wants`];
    const everTaken = this.everTaken.has(name);
    return wanted && !automatic && !everTaken ? [`${name}: the link is missing`] : [];
  }
}

function opened(number: number): PullRequest {
  return {
    kind: 'pull_request',
    key: `github:github.com:5001:pull:${number}`,
    connector: 'github',
    host: 'github.com',
    repoId: '5001',
    identifier: String(number),
    updatedAt: Date.UTC(2026, 0, 5, 8),
    url: urlOf(number - 1),
    title: 'A change',
    headBranch: 'feature',
    baseBranch: 'main',
    state: 'open',
    draft: false,
    labels: [],
  };
}

function urlOf(index: number): string {
  return `https://github.com/acme/app/pull/${index + 1}`;
}

function names(pull: PullRequest, task: string): boolean {
  return PLAIN_RULES.links.mentionsOf(pull, SOURCE).some(({ name }) => name === task);
}

it('once all is delivered and sent, the workspace holds what it should', async () => {
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(step, { maxLength: 60, size: 'max' }), async (started, steps) => {
      const store = await openStore({ file: ':memory:' });
      try {
        const world = new World(store);
        await world.kill();
        if (started) await world.start();
        for (const each of steps) await world.take(each);
        await world.settleDown();
        expect(world.faults()).toEqual([]);
      } finally {
        await store.close();
      }
    }),
    // A fixed seed, so that everybody can repeat a failure.
    { numRuns: drawn(120), seed: 20_261_120 },
  );
});
