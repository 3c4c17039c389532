import { describeUnfinished } from '../../admin/labels.ts';
import type { LagReport } from '../../admin/status/describe-open-workspace.ts';
import type { WorkspaceStatus } from '../../admin/status/status.ts';
import { count, counted, duration } from '../../platform/lib/quantities.ts';
import { connectionCards } from '../connections/connection-cards.ts';
import { deliveryTable } from '../deliveries/delivery-table.ts';
import { HELP_OF_REASONS } from '../help.ts';
import { fact, html, lastSent, type Markup, when } from '../html.ts';
import { linkTo, type PageContent, pathOf, request, type WorkspacePageContext } from '../pages/page-content.ts';
import { processProblems, verdictBanner } from '../pages/problem-content.ts';
import { quotaCard, usageCard, usageTable } from '../quota/quota-card.ts';

const LATEST = 6;

/** How a workspace is: the verdict, the figures, the quota, its connections. */
export async function overviewPage(context: WorkspacePageContext): Promise<PageContent> {
  const { status, now, partition } = context;
  const { deliveries } = context.clean(await request(context, 'deliveries', { limit: LATEST }));
  const latest = deliveryTable({
    ...{ workspace: partition.name, title: 'Latest deliveries', deliveries, now },
    empty:
      'Nothing has come in yet. Send a test delivery to the webhook address of a connection, or wait for the next poll.',
  });
  const use = context.clean(await request(context, 'quota-by-caller', {}));
  return {
    title: 'Overview',
    parts: [
      { id: 'process', body: html`${processProblems(context.clean(context.process))}` },
      { id: 'verdict', body: verdictBanner(status, now) },
      { id: 'figures', body: html`<div class="tiles">${tilesOf(context)}</div>` },
      { id: 'unfinished', body: html`${await unfinishedCard(context)}` },
      { id: 'quota', body: html`<div class="grid two">${quotaCard(status, now)}${usageCard(use)}</div>` },
      { id: 'connections', body: connectionCards(status.connections, now) },
      { id: 'deliveries', body: latest },
      { id: 'usage', body: usageTable(use) },
      { id: 'about', body: about(status, now, partition.name) },
    ],
  };
}

function tile(title: string, value: Markup | string, hint: Markup | string | null): Markup {
  return html`<div class="card tile"><span class="soft">${title}</span><span class="value">${value}</span><span class="hint">${hint}</span></div>`;
}

function tilesOf({ status, now, partition }: WorkspacePageContext): readonly Markup[] {
  const { pullRequests, links, changes, deliveries, backlog } = status;
  const { held, unknown } = changes.byState;
  const lastDelivery = status.connections.reduce((last, { lastDeliveryAt: at }) => Math.max(last, at ?? 0), 0) || null;
  return [
    tile('Pull requests synced', partOf(pullRequests), remaining(pullRequests)),
    tile('Links synced', partOf(links), remaining(links)),
    tile('To send', count(backlog.requests), backlogWords(backlog, now)),
    tile(
      'Needs approval',
      count(held),
      held === 0
        ? unknown > 0
          ? `${count(unknown)} of unknown outcome`
          : 'nothing'
        : html`<a href="${pathOf(partition.name, 'problems')}#changes_held">Look at them</a>`,
    ),
    lagTile(partition.lag()),
    tile(
      'Deliveries in 24 hours',
      count(deliveries.lastDay),
      deliveries.pending > 0 ? `${count(deliveries.pending)} being read` : html`last ${when(lastDelivery, now)}`,
    ),
  ];
}

const NAMED = 10;

/** Tasks that merged work has not finished. */
async function unfinishedCard(context: WorkspacePageContext): Promise<Markup | null> {
  const sentence = describeUnfinished(context.status.unfinishedTasks);
  if (sentence === undefined) return null;
  const { tasks } = context.clean(await request(context, 'unfinished', { limit: NAMED }));
  const names = tasks.map(
    ({ key, name }, index) =>
      html`${index > 0 ? ', ' : null}${linkTo(context.partition.name, 'item', { name: key }, name)}`,
  );
  return html`<section class="card stack"><p class="text">${sentence}. The page of a task gives the reason: ${names} · <a href="${HELP_OF_REASONS}">help</a></p></section>`;
}

function backlogWords({ requests, lastSentAt, backfill }: WorkspaceStatus['backlog'], now: number): Markup | string {
  if (requests === 0) return 'nothing waits';
  return html`${lastSent(lastSentAt, now)}${backfill > 0 ? `, ${count(backfill)} of them for backfills` : ''}`;
}

function lagTile(lag: LagReport | null): Markup {
  if (lag === null)
    return tile(
      'From event to workspace',
      html`<span class="none">–</span>`,
      'no event led to a write since the daemon started; imports do not count',
    );
  return tile(
    'From event to workspace',
    inSeconds(lag.p50),
    `half of the last ${counted(lag.count, 'event')} that led to a write; 95 % within ${inSeconds(lag.p95)}`,
  );
}

function inSeconds(milliseconds: number): string {
  return milliseconds < 10_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : duration(milliseconds);
}

function partOf({ total, waiting }: WorkspaceStatus['links']): Markup {
  const done = Math.max(0, total - waiting);
  return done === total ? html`${count(total)}` : html`${count(done)} <small>of ${count(total)}</small>`;
}

function remaining({ total, waiting }: WorkspaceStatus['links']): string {
  if (total === 0) return 'none yet';
  return waiting === 0 ? 'all of them' : `${count(waiting)} wait`;
}

function about({ address, items, tasks, sweep, gone, mirror }: WorkspaceStatus, now: number, name: string): Markup {
  const { last } = sweep;
  const repaired = last
    ? html`${when(last.finishedAt, now)}: ${count(last.repairs.done)} repaired`
    : html`<span class="none">none yet</span>`;
  return html`<section class="card stack"><h2>About ${name}</h2><dl class="facts wide">
${fact('API', html`<code>${address}</code>`)}
${fact('Pull requests', mirror.message)}
${fact('Items known', count(items))}
${fact('Tasks cached', count(tasks))}
${fact('Items gone at their vendor', gone.length >= 20 ? '20 or more' : count(gone.length))}
${fact('Last sweep of the workspace', html`${repaired}${sweep.running ? html`; one runs since ${when(sweep.running.startedAt, now)}` : null}`)}</dl></section>`;
}
