import { hash } from 'node:crypto';
import { chanceOf } from '../bench/quota/references/chance.ts';
import type { Hook } from '../support/vendors/provider-servers/provider.ts';
import { calmDay } from './calm.ts';
import { contestsOfNobody, differences } from './checker-convergence.ts';
import { complaintsAbout, statusWrong } from './checker-store.ts';
import type { Event } from './history.ts';
import { ProcessEnded } from './life.ts';
import { WORKSPACE } from './network.ts';
import { createOperator, lookAtAll, lookAtWorkspace } from './operator.ts';
import type { Forge, Happening, Hooks, Plan } from './plan.ts';
import { openSite, type Replica, type Site } from './site.ts';
import type { Templates } from './templates.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** After everything is healed: how often the workspace is compared with the providers, and when it is given up. */
const LOOK_EVERY = 5 * MINUTE;
/** Time after which requests in flight and takeovers have ended. */
const AFTERMATH = MINUTE;
const PATIENCE = 4 * 60 * MINUTE;

/**
 * Plays a plan to its end, heals everything, and waits until the workspace is as the providers are.
 *
 * @param isCalm whether a calm day follows, in which everything must go well and cost little
 * @returns what was seen, and how many virtual milliseconds passed
 */
export async function play(plan: Plan, templates: Templates, isCalm: boolean) {
  const site = await openSite(plan, templates);
  const { clock, recorder } = site;
  const unhandled = (error: unknown) => {
    if (!(error instanceof ProcessEnded)) recorder.record({ what: 'unexpected', text: textOf(error) });
  };
  process.on('unhandledRejection', unhandled);
  try {
    for (const replica of site.replicas) await site.during(site.start(replica));
    const stage = createStage(site);
    for (const happening of plan.happenings) {
      await site.pass(Math.max(0, happening.at - clock.elapsed()));
      recorder.record({ what: 'happened', happening });
      await stage.act(happening);
    }
    await site.pass(Math.max(0, plan.length - clock.elapsed()));
    await site.noteRows();
    await heal(site, stage);
    if ((await settle(site, stage)) && isCalm) {
      site.weather.givePages();
      await calmDay(site, plan, stage.act);
      if (await settle(site, stage)) await tellStatus(site);
    }
    await site.noteRows();
    if (plan.isKnown) for (const [name, count] of site.counts.all()) recorder.record({ what: 'counted', name, count });
    await tellEnd(site, isCalm);
    return { events: recorder.events, elapsed: clock.elapsed() };
  } finally {
    await site.close();
    process.off('unhandledRejection', unhandled);
  }
}

type Do<Name extends Happening['do']> = Extract<Happening, { do: Name }>;

type Stage = ReturnType<typeof createStage>;

function createStage(site: Site) {
  const { clock, recorder, weather, network, providers, people, replicas } = site;
  let sendings = 0;
  let deliveries = 0;
  let tasks = 0;
  const away = new Map<Replica, () => Promise<void>>();
  const full = new Set<Replica>();
  const paused = new Set<Forge>();

  const later = (replica: Replica, ms: number, call: () => Promise<void>) => {
    away.set(replica, call);
    clock.after(ms, () => void back(replica, call));
  };
  const back = async (replica: Replica, call: () => Promise<void>) => {
    if (away.get(replica) !== call) return;
    away.delete(replica);
    await inTurn(replica, call);
  };
  /** Starting and ending take turns of their own. */
  const inTurn = async (replica: Replica, call: () => Promise<void>) => {
    replica.isBusy = true;
    try {
      await call();
    } catch (error) {
      if (!(error instanceof ProcessEnded)) recorder.record({ what: 'unexpected', text: textOf(error) });
    } finally {
      replica.isBusy = false;
    }
  };
  const free = (number: number): Replica | undefined => {
    const replica = replicas[number];
    return replica && !replica.isBusy && !away.has(replica) && replica.running?.life.isAlive() ? replica : undefined;
  };

  const sleep = (replica: Replica | undefined, ms: number) => {
    const life = replica?.running?.life;
    life?.sleep();
    if (replica) clock.after(ms, () => life?.wake());
  };

  const operator = createOperator(site);
  const echoes = chanceOf(site.seed, 'echoes');
  providers.onWritten((connection, delivery, hook) =>
    sendHooks(connection, { delays: [echoes.whole(50, 5_000)], again: true }, delivery, hook),
  );

  function sendHooks(connection: string, { delays, again, repaired }: Hooks, delivery: string, hook: () => Hook): void {
    const [first] = delays;
    if (repaired !== undefined && first !== undefined) {
      const broken = () => providers.garbled(hook());
      clock.after(first, () => void sendHook(connection, delivery, broken, true, true));
      clock.after(first + repaired, () => void untilTaken(delivery, () => sendHook(connection, delivery, hook, false)));
    } else for (const delay of delays) clock.after(delay, () => void sendHook(connection, delivery, hook, again));
  }

  /** Somebody presses the button for as long as nobody takes it, but not before it is known that nobody can read it. */
  async function untilTaken(delivery: string, send: () => Promise<number>): Promise<void> {
    // The database may not answer; then the sender repeats the delivery.
    const isKnown = await isSettled(delivery).catch(() => false);
    const status = isKnown ? await send() : 0;
    if (status < 200 || status >= 300) clock.after(MINUTE, () => void untilTaken(delivery, send));
  }

  async function isSettled(delivery: string): Promise<boolean> {
    const rows = site
      .partition()
      ?.store.query.selectFrom('inbox')
      .select('state')
      .where('delivery_key', '=', delivery)
      .execute();
    return ((await rows) ?? [{ state: 'pending' }]).every(({ state }) => state !== 'pending');
  }

  async function sendHook(
    connection: string,
    delivery: string,
    hook: () => Hook,
    again: boolean,
    isBroken = false,
  ): Promise<number> {
    const { headers, body } = hook();
    const replica = replicas[sendings++ % replicas.length] as Replica;
    const url = `${replica.origin}/webhooks/test/${connection}`;
    const answer = await network.send(connection, { method: 'POST', url, headers, body, target: 'hook' });
    const status = answer?.status ?? 0;
    // A delivery without an id is identified by its bytes.
    const key = Object.values(headers).includes(delivery) ? delivery : hash('sha256', body, 'hex');
    recorder.record({ what: 'hook', id: answer?.id, connection, key, status, ...(isBroken && { isBroken }) });
    if (again && (status === 0 || status >= 500))
      clock.after(MINUTE, () => void sendHook(connection, delivery, hook, false, isBroken));
    return status;
  }

  async function kill(replica: Replica, { steps, back: ms, reboot }: Pick<Do<'kill'>, 'steps' | 'back' | 'reboot'>) {
    const end = endOf(replica, ms, reboot);
    if (steps > 0) return replica.running?.life.killAfter(steps, end);
    replica.running?.life.kill();
    end();
  }

  /** Returns the steps that bring the process back. */
  function endOf(replica: Replica, ms: number, reboot: boolean): () => void {
    const gone = async () => {
      await site.bury(replica);
      if (reboot) {
        replica.machine.boots++;
        replica.machine.bootedAt = clock.elapsed();
      }
      replica.isBusy = false;
      later(replica, ms, () => site.start(replica));
    };
    return () => {
      replica.isBusy = true;
      clock.after(0, () => void gone());
    };
  }

  async function others({ requests, for: duration }: Do<'others'>): Promise<void> {
    const ask = () =>
      network.send('others', {
        method: 'GET',
        url: `http://${WORKSPACE}/api/v1/workspaces/current/tasks?limit=1`,
        headers: { authorization: `Bearer ${site.othersKey}` },
        target: 'workspace',
      });
    for (let index = 0; index < requests; index++)
      clock.after(Math.floor((index * duration) / requests), () => void ask());
  }

  async function byHand(happening: Do<'unlink' | 'link' | 'edit-record'>): Promise<void> {
    const { links, records, tasks: present } = await lookAtWorkspace(site);
    const pickOf = <Each>(all: readonly Each[]) => all[happening.pick % Math.max(1, all.length)];
    if (happening.do === 'unlink') {
      const link = pickOf(links.filter(({ url }) => url.includes('/pull')));
      if (!link) return;
      await people.removeWorkItem({ taskId: link.taskId, workItemId: link.workItemId }, {});
      recorder.record({ what: 'unlinked', task: link.taskId, url: link.url });
    } else if (happening.do === 'link') {
      const [task, record] = [pickOf(present), pickOf(records)];
      const url = record?.url;
      if (!task || !url || links.some((link) => link.url === url && link.taskId === task.taskId)) return;
      await people.addWorkItem({ taskId: task.taskId, body: { url } }, {});
      recorder.record({ what: 'linked', task: task.taskId, url });
    } else {
      const record = pickOf(records);
      // Nobody changes what was declined.
      if (!record || record.state === 'declined') return;
      const { provider, repoId, identifier } = record;
      const body = { provider: provider as 'github', repoId, identifier, title: 'By hand' };
      await people.updatePullRequest({ body }, {});
    }
  }

  async function act(happening: Happening): Promise<void> {
    switch (happening.do) {
      case 'pull':
      case 'issue': {
        const delivery = `delivery-${++deliveries}`;
        const hook = providers.change(happening, delivery);
        const connection = happening.do === 'pull' ? happening.forge : happening.tracker;
        if (hook) sendHooks(connection, happening.hooks, delivery, hook);
        return;
      }
      case 'comment': {
        const delivery = `delivery-${++deliveries}`;
        const hook = providers.comment(happening.number, delivery);
        if (hook) sendHooks('github', happening.hooks, delivery, hook);
        return;
      }
      case 'look':
        return void operator.look();
      case 'task':
        await people.createBug({ body: { title: `Task ${++tasks}` } }, {});
        return;
      case 'finish': {
        const { tasks: present } = (await people.listTasks({ query: { all: true } }, {})).body;
        const ofItems = present.filter(({ source }) => source?.includes(':'));
        const task = ofItems[happening.pick % Math.max(1, ofItems.length)];
        if (!task) return;
        await people.updateTask({ taskId: task.taskId, body: { status: 'completed' } }, {});
        return recorder.record({ what: 'finished', task: task.taskId });
      }
      case 'set-status': {
        const { tasks: present } = (await people.listTasks({ query: { all: true } }, {})).body;
        const task = present[happening.pick % Math.max(1, present.length)];
        if (!task) return;
        await people.updateTask({ taskId: task.taskId, body: { status: happening.status } }, {});
        // The workspace shows no edit that changes nothing.
        if (task.status === happening.status) return;
        return recorder.record({ what: 'status-set', task: task.taskId, status: happening.status });
      }
      case 'remark': {
        const remark = providers.remark(happening.pick);
        return remark && recorder.record({ what: 'remarked', ...remark });
      }
      case 'rename':
        return providers.rename(happening.name);
      case 'unlink':
      case 'link':
      case 'edit-record':
        return byHand(happening);
      case 'weather':
        return weather.turn(happening.server, happening.trouble, happening.share, clock.elapsed() + happening.for);
      case 'kill': {
        const replica = free(happening.replica);
        return replica && kill(replica, happening);
      }
      case 'kill-at': {
        const replica = free(happening.replica);
        const life = replica?.running?.life;
        if (replica && life) site.statements.killNext(life, endOf(replica, happening.back, false));
        return;
      }
      case 'fail-statements':
        return site.statements.fail(happening.share, clock.elapsed() + happening.for);
      case 'restart': {
        const replica = free(happening.replica);
        // A suspended process receives no signal.
        if (!replica?.running?.life.isAwake()) return;
        await inTurn(replica, () => site.stop(replica));
        return later(replica, happening.back, () => site.start(replica));
      }
      case 'sleep':
        return sleep(free(happening.replica), happening.back);
      case 'jump': {
        const machine = replicas[happening.replica]?.machine;
        if (machine) machine.ahead += happening.by;
        return;
      }
      case 'jump-store':
        if (site.databaseServer) site.databaseServer.ahead += happening.by;
        return;
      case 'store-away': {
        const { databaseServer } = site;
        if (!databaseServer) return;
        databaseServer.failing = happening.share;
        clock.after(happening.for, () => void (databaseServer.failing = 0));
        return;
      }
      case 'store-slow':
        site.slowness.by = happening.by;
        clock.after(happening.for, () => void (site.slowness.by = 0));
        return;
      case 'sleep-owner':
        return sleep(free(await site.ownerOf()), happening.back);
      case 'others':
        return others(happening);
      case 'reload':
        site.configure(happening);
        for (const { number } of replicas) {
          const replica = free(number);
          if (replica) void inTurn(replica, async () => replica.running?.composition.reload.now());
        }
        return;
      case 'disk-full': {
        const replica = free(happening.replica);
        if (!replica) return;
        full.add(replica);
        await site.fillDisk(replica, true);
        clock.after(happening.for, () => void site.fillDisk(replica, false));
        return;
      }
      case 'backfill':
        return void operator.backfill(happening.forge);
      case 'pause-backfill':
        paused.add(happening.forge);
        clock.after(happening.for, () => void operator.resume(happening.forge));
        return void operator.pause(happening.forge);
      case 'backup':
        if (free(0)) await site.backUp();
        return;
      case 'restore': {
        const replica = free(0);
        if (!replica) return;
        await inTurn(replica, async () => {
          await site.stop(replica);
          if (await site.restore(happening.byHand)) providers.past.forgotten();
        });
        return later(replica, happening.back, () => site.start(replica));
      }
    }
  }

  return {
    act,
    async release() {
      await site.releaseHeld();
      for (const forge of paused) await operator.resume(forge);
    },
    /** Ends the faults under way, and starts the replicas that are down. */
    async comeBack() {
      site.statements.clear();
      for (const replica of replicas) {
        replica.running?.life.wake();
        replica.running?.life.killAfter(Number.POSITIVE_INFINITY, () => undefined);
      }
      for (const replica of full) await site.fillDisk(replica, false);
      for (const [replica, call] of away) void back(replica, call);
    },
  };
}

async function heal(site: Site, stage: Stage): Promise<void> {
  site.weather.clear();
  site.slowness.by = 0;
  if (site.databaseServer) site.databaseServer.failing = 0;
  await stage.comeBack();
  // A process that is ending at this moment comes back as well.
  for (let round = 0; round < 3; round++) {
    await site.pass(SECOND);
    await stage.comeBack();
  }
  site.recorder.record({ what: 'healed' });
}

/** @returns whether all became as it should be */
async function settle(site: Site, stage: Stage): Promise<boolean> {
  const end = site.clock.elapsed() + PATIENCE;
  await site.pass(AFTERMATH);
  site.setQuiet(true);
  for (;;) {
    await site.pass(LOOK_EVERY);
    await stage.release();
    const look = await lookAtAll(site);
    const isSettled = look.left === 0 && differences(look, site.recorder.events).length === 0;
    if (!isSettled && site.clock.elapsed() < end) continue;
    site.recorder.record({ what: 'looked', ...look });
    site.setQuiet(false);
    return isSettled;
  }
}

/** @param isCalm whether there was time for whatever is done once in a while */
async function tellEnd(site: Site, isCalm: boolean): Promise<void> {
  const { tell } = site;
  await tellInbox(site);
  for (const text of site.providers.unanswered()) tell(`a provider was asked ${text}`);
  const store = isCalm ? site.partition()?.store : undefined;
  if (!store) return;
  const lost = lostByRestore(site.recorder.events);
  for (const text of await complaintsAbout(store, await lookAtAll(site), site.timeOf(0), lost)) tell(text);
  for (const text of await contestsOfNobody(store, site.recorder.events)) tell(text);
}

async function tellStatus(site: Site): Promise<void> {
  const { events } = site.recorder;
  const isAlone = site.replicas.length === 1;
  const isBroken = lostByRestore(events).size > 0;
  const isClockTrue = site.timeOf(0) !== undefined && !events.some(({ what }) => what === 'restored');
  for (const replica of site.replicas) {
    const status = await site.status(replica);
    const name = `replica ${replica.number}`;
    if (status)
      for (const text of statusWrong(status, events, { name, isAlone, isBroken, isClockTrue })) site.tell(text);
  }
}

/** Broken deliveries that were repaired after the backup that was put back. */
function lostByRestore(events: readonly Event[]): ReadonlySet<string> {
  if (!events.some(({ what }) => what === 'restored')) return new Set();
  return new Set(events.flatMap((event) => (event.what === 'hook' && event.isBroken ? [event.key] : [])));
}

async function tellInbox(site: Site): Promise<void> {
  const rows = await site
    .partition()
    ?.store.query.selectFrom('inbox')
    .select(['connection', 'delivery_key as key', 'state'])
    .where('source', 'in', ['webhook', 'workspace'])
    .orderBy('id')
    .execute();
  for (const row of rows ?? []) site.recorder.record({ what: 'inbox', ...row });
}

function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
