import { bytes, count, counted, duration } from '../lib/quantities.ts';
import type {
  BrokenWorkspace,
  ConnectionStatus,
  Status,
  WindowStatus,
  WorkspaceState,
  WorkspaceStatus,
} from '../operator/status.ts';
import type { Verdict } from '../operator/verdict.ts';
import type { BackfillStatus } from '../store/backfills.ts';
import type { ChangeRow, DeliveryRow, Failure, GoneItem } from '../store/stored-status.ts';
import { helpOf } from './help.ts';
import { html, type Markup } from './html.ts';
import { documentOf } from './html-document.ts';
import { when } from './moment.ts';

/** Seconds between two loads of the page. */
const REFRESH = 10;

/** @param pageToken of the browser's session; absent for a program, which cannot log out */
export function statusPage(status: Status, refreshes: boolean, pageToken?: string): Markup {
  const body = html`${heading(status, refreshes, pageToken)}
<main>
${notReady(status)}
${configFault(status)}
${status.broken.map(brokenSection)}
${status.workspaces.map((workspace) => workspaceSection(workspace, status.at))}
</main>`;
  return documentOf(titleOf(status), body, refreshes ? html`<meta http-equiv="refresh" content="${REFRESH}">` : null);
}

function titleOf(status: Status): string {
  if (!status.ready) return 'not ready – worksync';
  return status.verdict === 'ok' ? 'worksync' : `${status.verdict} – worksync`;
}

function heading(status: Status, refreshes: boolean, pageToken: string | undefined): Markup {
  return html`<header>
<h1>worksync</h1>
${status.ready ? verdictWords(status.verdict) : html`<span class="state bad">■ not ready</span>`}
<span class="soft">version ${status.version}, running for ${duration(status.at - status.startedAt)},
database ${bytes(status.databaseBytes)}</span>
<span class="soft">as of ${new Date(status.at).toISOString().slice(0, 19).replace('T', ' ')} UTC,
${refreshes ? html`reloads every ${REFRESH} s (<a href="/?refresh=off">stop</a>)` : html`<a href="/">reload every ${REFRESH} s</a>`}</span>
${pageToken === undefined ? null : logOut(pageToken)}
</header>`;
}

function logOut(pageToken: string): Markup {
  return html`<form method="post" action="/logout"><input name="page" type="hidden" value="${pageToken}">
<button type="submit">Log out</button></form>`;
}

function notReady(status: Status): Markup | null {
  const failing = Object.entries(status.components).filter(([, reason]) => reason !== 'ok');
  if (failing.length === 0) return null;
  return html`<div class="banner bad" role="status"><strong>Not ready</strong>
${failing.map(([component, reason]) => html`<p><code>${component}</code>: <code>${reason}</code></p>`)}</div>`;
}

function configFault({ configFault: fault }: Status): Markup | null {
  if (fault === null) return null;
  return html`<div class="banner wait" role="status"><strong>The configuration could not be reloaded</strong>
<p><code>${fault.code}</code>: ${fault.message}</p><p>${fault.hint} The last good configuration stays in use.</p></div>`;
}

function workspaceSection(workspace: WorkspaceStatus, now: number): Markup {
  return html`<section>
<h2>${workspace.name}</h2>
<p class="soft">${stateWords(workspace.state, now)} · <code>${workspace.address}</code></p>
${haltBanner(workspace.state)}
${warnings(workspace)}
<div class="cards">
${quotaCard(workspace, now)}
${deliveriesCard(workspace, now)}
${changesCard(workspace, now)}
${holdingsCard(workspace, now)}
</div>
${connectionsTable(workspace.connections, now)}
${backfillTable(workspace.backfills, now)}
${stuckTable(workspace.changes.stuck, now)}
${quarantineTable(workspace, now)}
${goneTable(workspace.gone, now)}
${nextTable(workspace, now)}
${latestTable(workspace.deliveries.latest, now)}
</section>`;
}

const VERDICTS: Readonly<Record<Verdict, readonly [tone: string, words: string]>> = {
  ok: ['good', '● ok'],
  degraded: ['wait', '◆ degraded'],
  blocked: ['bad', '■ blocked'],
};

function verdictWords(verdict: Verdict): Markup {
  const [tone, words] = VERDICTS[verdict];
  return html`<span class="state ${tone}">${words}</span>`;
}

/** A workspace whose state is unknown: it is not open. */
function brokenSection({ name, code, message, hint }: BrokenWorkspace): Markup {
  return html`<section>
<h2>${name}</h2>
<p class="soft"><span class="state bad">■ blocked: ${code}</span></p>
<div class="banner bad" role="status"><strong>Nothing is taken or sent</strong>
<p class="text">${message}</p><p>${hint}</p></div>
</section>`;
}

/** Warnings that block nothing, but need a person. */
function warnings({ causes }: WorkspaceStatus): Markup | null {
  const degrading = causes.filter(({ verdict }) => verdict === 'degraded');
  if (degrading.length === 0) return null;
  return html`<div class="banner wait" role="status"><strong>Degraded</strong>
${degrading.map(({ message, hint }) => html`<p class="text">${message}. ${hint}</p>`)}</div>`;
}

function stateWords(state: WorkspaceState, now: number): Markup {
  if (state.kind === 'running') return html`<span class="state good">● running</span>`;
  if (state.kind === 'halted') return html`<span class="state bad">■ halted: ${state.code}</span>`;
  return html`<span class="state wait">◆ waiting: ${state.reason}</span>, goes on ${when(state.until, now)}`;
}

function haltBanner(state: WorkspaceState): Markup | null {
  if (state.kind !== 'halted') return null;
  return html`<div class="banner bad" role="status"><strong>Nothing is sent</strong>
<p class="text">${state.message}</p><p>${state.hint}</p></div>`;
}

function quotaCard({ quota }: WorkspaceStatus, now: number): Markup {
  const share = `${Math.round(quota.effectiveShare * 100)} %`;
  const lowered = quota.effectiveShare < quota.ceiling - 0.001;
  return html`<div class="card"><h3>Request quota</h3>
${windowBar(quota.long)}
${windowBar(quota.burst)}
<p class="hint"><span class="key fill"></span> background work: at most ${share} of the long window${
    lowered
      ? html`,
not ${Math.round(quota.ceiling * 100)} %, since others use this workspace too`
      : null
  }
· <span class="key more"></span> people · ${counted(quota.inFlight, 'request')} in flight</p>
${quota.limited ? html`<p class="wait">Refused recently: one request at a time.</p>` : null}
${quota.paused ? html`<p class="wait">Paused: ${quota.paused.reason}, until ${when(quota.paused.until, now)}.</p>` : null}</div>`;
}

function windowBar(window: WindowStatus): Markup {
  const span = duration(window.window);
  if (window.cap === null)
    return html`<div class="window"><div class="row"><span>${span}</span><span>${count(window.used)}, no limit</span></div></div>`;
  const percent = (value: number) => Math.min(100, (value / Math.max(1, window.cap ?? 1)) * 100).toFixed(2);
  const label = `${window.used} of ${window.cap} requests in ${span}`;
  const mark = window.backgroundLimit;
  return html`<div class="window"><div class="row"><span>in ${span}</span><span>${count(window.used)} of ${count(window.cap)}</span></div>
<svg viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="${label}">
<rect class="track" width="100" height="6"/><rect class="more" width="${percent(window.used)}" height="6"/>
<rect class="fill" width="${percent(window.usedByBackground)}" height="6"/>
${mark === null || mark >= window.cap ? null : html`<rect class="mark" x="${percent(mark)}" width="0.4" height="6"/>`}
</svg></div>`;
}

function card(title: string, rows: readonly (readonly [string, Markup | string])[]): Markup {
  return html`<div class="card"><h3>${title}</h3><dl>
${rows.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}
</dl></div>`;
}

/** A number that should be zero. */
function alarm(value: number, tone: 'wait' | 'bad'): Markup {
  return value === 0 ? html`0` : html`<span class="${tone}">${count(value)}</span>`;
}

function deliveriesCard({ deliveries }: WorkspaceStatus, now: number): Markup {
  return card('Deliveries', [
    ['last received', when(deliveries.lastReceivedAt, now)],
    ['in the last 24 hours', count(deliveries.lastDay)],
    ['waiting', count(deliveries.pending)],
    ['quarantined', alarm(deliveries.quarantined, 'bad')],
  ]);
}

function changesCard({ changes }: WorkspaceStatus, now: number): Markup {
  return card('Changes to send', [
    ['waiting', count(changes.byState.pending)],
    ['oldest since', when(oldestOf(changes), now)],
    ['being sent', count(changes.byState.sending)],
    ['outcome unknown', alarm(changes.byState.unknown, 'wait')],
    ['needs approval', alarm(changes.byState.held, 'bad')],
  ]);
}

function oldestOf({ oldest }: WorkspaceStatus['changes']): number | null {
  const times = Object.values(oldest);
  return times.length === 0 ? null : Math.min(...times);
}

function holdingsCard(workspace: WorkspaceStatus, now: number): Markup {
  const inStep = ({ total, waiting }: { total: number; waiting: number }) =>
    waiting === 0 ? count(total) : html`${count(Math.max(0, total - waiting))} of ${count(total)}`;
  return card('Synced', [
    ['pull requests', inStep(workspace.pullRequests)],
    ['links', inStep(workspace.links)],
    ['tasks cached', count(workspace.tasks)],
    ['items known', count(workspace.items)],
    ['last sweep', sweepWords(workspace.sweep, now)],
  ]);
}

/** Differences that the last sweep found in the workspace. */
function sweepWords({ running, last }: WorkspaceStatus['sweep'], now: number): Markup {
  if (!last) return running ? html`runs since ${when(running.startedAt, now)}` : html`<span class="none">–</span>`;
  const { found, repairs } = last;
  const left = repairs.waiting + repairs.held;
  const all = Object.values(found).reduce((sum, each) => sum + each, 0);
  const byPeople = all - found['record-changed'] - found['record-missing'];
  return html`${when(last.finishedAt, now)}: ${counted(repairs.done, 'record')} repaired${
    left === 0 ? null : html`, <span class="wait">${count(left)} waiting</span>`
  }${byPeople === 0 ? null : html`, ${count(byPeople)} changed by people`}${running ? html`; the next one runs` : null}`;
}

/** Columns of numbers, by their title. */
const NUMBERS = new Set(['Id', 'Attempts']);

/** A wide table scrolls inside its card, by keyboard too. */
function table(title: string, columns: readonly string[], rows: readonly Markup[], note: Markup | null = null): Markup {
  const head = columns.map(
    (column) => html`<th scope="col" class="${NUMBERS.has(column) ? 'number' : ''}">${column}</th>`,
  );
  return html`<div class="card wide" role="region" aria-label="${title}" tabindex="0"><table>
<caption><h3>${title}</h3>${note}</caption>
<thead><tr>${head}</tr></thead>
<tbody>
${rows}
</tbody></table></div>`;
}

function failure(given: Failure | null): Markup {
  if (!given) return html`<span class="none">–</span>`;
  return html`<span class="bad"><a href="${helpOf(given.code)}"><code>${given.code}</code></a></span> ${given.message}
${given.hint ? html`<div class="hint">${given.hint}</div>` : null}`;
}

function connectionsTable(connections: readonly ConnectionStatus[], now: number): Markup {
  if (connections.length === 0)
    return html`<p class="card wide">No connection is configured: nothing can come in. Add one under <code>connections</code>
in the workspace's file.</p>`;
  const rows = connections.map(
    (each) => html`<tr><th scope="row">${each.name}<div class="hint">${each.connector}</div></th>
<td class="nowrap">${each.webhookPath ? html`<code>${each.webhookPath}</code>` : html`<span class="none">off: no secret</span>`}</td>
<td class="nowrap">${when(each.lastDeliveryAt, now)}</td>
<td>${pollWords(each, now)}</td>
<td class="text">${failure(each.failure)}${failingWords(each)}${hookWords(each)}</td></tr>`,
  );
  return table('Connections', ['Connection', 'Webhooks', 'Last delivery', 'Polling', 'Last error'], rows);
}

function pollWords(each: ConnectionStatus, now: number): Markup {
  if (!each.schedule) return html`<span class="none">off</span>`;
  const detail = [
    each.units > 1 ? `${count(each.units)} repositories or projects` : null,
    each.walking > 0 ? `${count(each.walking)} being read` : null,
    each.fetches > 0 ? `${counted(each.fetches, 'object')} to fetch` : null,
  ].filter((part) => part !== null);
  return html`${when(each.lastPollAt, now)}<div class="hint">${[each.schedule, ...detail].join(', ')}</div>`;
}

function failingWords({ failure: latest, failingUnits }: ConnectionStatus): Markup | null {
  if (!latest) return null;
  const place = latest.unit ? html` in <code>${latest.unit}</code>` : null;
  const others = failingUnits > 1 ? html`, ${count(failingUnits - 1)} more failing` : null;
  return place || others ? html`<div class="hint">${place}${others}</div>` : null;
}

/** A name whose target has been renamed or replaced. */
function nameWords({ name, id, called, elsewhere }: ConnectionStatus['names'][number]): Markup {
  if (elsewhere === null) return html`<div>${name} is now called ${called}</div>`;
  return html`<div><span class="wait">scope_rebound</span> ${name} leads to ${elsewhere} now, and led to ${id} before</div>`;
}

/** Faults of its webhooks at the vendor, and its units that were not found. */
function hookWords({ hooks, names, missingUnits }: ConnectionStatus): readonly Markup[] {
  const failures = [hooks?.failure, hooks?.redeliveryFailure].filter((each) => typeof each === 'string');
  return [
    ...names.map(nameWords),
    ...(hooks?.silent ?? []).map(
      ({
        subject,
        state,
        message,
        hint,
      }) => html`<div><span class="bad">webhook ${state}</span> at <code>${subject}</code>:
${message}${hint ? html`<div class="hint">${hint}</div>` : null}</div>`,
    ),
    ...failures.map((each) => html`<div><span class="wait">webhooks</span> ${each}</div>`),
    ...missingUnits.map((unit) => html`<div><span class="wait">not found</span> <code>${unit}</code></div>`),
  ];
}

function backfillTable(backfills: readonly BackfillStatus[], now: number): Markup | null {
  if (backfills.length === 0) return null;
  return table(
    'Backfills',
    ['Connection', 'Since', 'Read', 'Requested', 'Finished', 'Failures'],
    backfills.map(
      (each) => html`<tr><th scope="row">${each.connection}</th>
<td class="nowrap">${each.since?.slice(0, 16).replace('T', ' ') ?? 'the beginning'}</td>
<td>${count(each.items)}${each.total === null ? null : html` of ${count(each.total)}`}
<div class="hint">${count(each.unitsDone)} of ${counted(each.units, 'unit')} done</div></td>
<td class="nowrap">${when(each.startedAt, now)}</td>
<td class="nowrap">${each.finishedAt === null ? html`<span class="wait">not yet</span>` : when(each.finishedAt, now)}</td>
<td class="text">${each.failures.map(({ unit, error }) => html`<div><code>${unit}</code> ${error}</div>`)}</td></tr>`,
    ),
  );
}

function stuckTable(rows: readonly ChangeRow[], now: number): Markup | null {
  if (rows.length === 0) return null;
  return table(
    'Changes that need attention',
    ['Entity', 'State', 'Since', 'Error'],
    rows.map(
      (row) => html`<tr><td class="text"><code>${row.entity}</code></td>
<td class="nowrap"><span class="${row.state === 'held' ? 'bad' : 'wait'}">${row.state}</span></td>
<td class="nowrap">${when(row.since, now)}</td><td class="text">${failure(row.failure)}</td></tr>`,
    ),
  );
}

function goneTable(rows: readonly GoneItem[], now: number): Markup | null {
  if (rows.length === 0) return null;
  return table(
    'Gone at the provider',
    ['Item', 'Connection', 'Detected'],
    rows.map(
      (row) => html`<tr><td class="text"><code>${row.key}</code></td><td>${row.connection}</td>
<td class="nowrap">${when(row.at, now)}</td></tr>`,
    ),
    html`<span class="hint">worksync writes nothing more for these; their links stay</span>`,
  );
}

function nextTable({ changes }: WorkspaceStatus, now: number): Markup | null {
  if (changes.next.length === 0) return null;
  const rows = changes.next.map(
    (row) => html`<tr><td class="text"><code>${row.entity}</code></td><td>${row.lane}</td>
<td class="nowrap">${when(row.since, now)}</td><td class="number">${row.attempts}</td>
<td class="nowrap">${row.notBefore > now ? when(row.notBefore, now) : html`with the next slot`}</td>
<td class="text">${failure(row.failure)}</td></tr>`,
  );
  const title = `Next of ${counted(changes.byState.pending, 'change')}`;
  return table(title, ['Entity', 'Lane', 'Since', 'Attempts', 'Tried', 'Last error'], rows);
}

function quarantineTable({ deliveries }: WorkspaceStatus, now: number): Markup | null {
  if (deliveries.quarantine.length === 0) return null;
  const rows = deliveries.quarantine.map(
    (row) => html`<tr><td class="number">${row.id}</td><td class="nowrap">${when(row.receivedAt, now)}</td>
<td>${row.connection}</td><td><code>${row.event}</code></td><td class="text">${row.reason ?? 'no reason was recorded'}</td></tr>`,
  );
  const all = deliveries.quarantined;
  const title = all > rows.length ? `Quarantined: the latest ${rows.length} of ${count(all)}` : 'Quarantined';
  const note = html`<p class="hint">Stored as received. When the sender repeats one, worksync tries it again.</p>`;
  return table(title, ['Id', 'Received', 'Connection', 'Event', 'Why'], rows, note);
}

const TONES: Readonly<Record<DeliveryRow['state'], string>> = {
  pending: 'wait',
  applied: 'good',
  superseded: 'soft',
  ignored: 'soft',
  quarantined: 'bad',
};

function latestTable(rows: readonly DeliveryRow[], now: number): Markup {
  if (rows.length === 0)
    return html`<p class="card wide">Nothing has come in yet. Send a test delivery to a webhook address above, or wait
for the next poll.</p>`;
  return table(
    'Latest deliveries',
    ['Id', 'Received', 'Connection', 'Source', 'Event', 'State', 'Why'],
    rows.map(
      (row) => html`<tr><td class="number">${row.id}</td><td class="nowrap">${when(row.receivedAt, now)}</td>
<td>${row.connection}</td><td>${row.source}</td><td><code>${row.event}</code></td>
<td><span class="${TONES[row.state]}">${row.state}</span></td><td class="text soft">${row.reason}</td></tr>`,
    ),
  );
}
