import type { ConnectionStatus } from '../../admin/status/status.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { chip, copyable, type Tone, when } from '../pages/fragments.ts';
import { failureWords } from '../status/verdict-banner.ts';

/** Each connection: whether it works, when it last did, and what went wrong last. */
export function connectionCards(connections: readonly ConnectionStatus[], now: number): Markup {
  if (connections.length === 0)
    return html`<p class="card">No connection is configured: nothing can come in. Add one under <code>connections</code> in the workspace's file.</p>`;
  return html`<section class="stack"><h2>Connections</h2><div class="grid">${connections.map((each) => connectionCard(each, now))}</div></section>`;
}

function connectionCard(each: ConnectionStatus, now: number): Markup {
  const [tone, words] = stateOf(each);
  return html`<article class="card stack"><div class="row"><h3>${each.name}</h3>${chip(tone, words)}</div>
<dl class="facts"><dt>last webhook</dt><dd>${each.webhookPath ? when(each.lastWebhookAt, now) : 'takes no webhooks'}</dd>
<dt>last complete poll</dt><dd>${each.schedule ? when(each.lastPollAt, now) : 'polls are off'}</dd>
<dt>last refused webhook</dt><dd>${refusedWords(each, now)}</dd>
<dt>last failure</dt><dd>${each.failure ? when(each.failure.at, now) : html`<span class="none">none since</span>`}</dd></dl>
${each.failure ? html`<div>${failureWords(each.failure)}${placeWords(each)}</div>` : null}
${troubles(each)}
<p class="hint">${detailsOf(each)}</p>
<p class="hint">${each.webhookPath ? html`Webhooks at ${copyable(each.webhookPath)}` : 'No webhooks: no secret is configured'}</p></article>`;
}

function refusedWords({ lastRefused }: ConnectionStatus, now: number): Markup {
  if (lastRefused === null) return html`<span class="none">none</span>`;
  const { at, status, code, count: times } = lastRefused;
  return html`${when(at, now)} <span class="wait">${status} ${code}${times > 1 ? `, ${count(times)} times` : ''}</span>`;
}

function stateOf({
  failure,
  hooks,
  missingUnits,
  names,
  lastDeliveryAt,
  lastPollAt,
}: ConnectionStatus): readonly [Tone, string] {
  if (failure) return ['bad', 'failing'];
  if (hooks?.silent.length) return ['wait', 'webhooks silent'];
  if (missingUnits.length > 0) return ['wait', 'partly missing'];
  if (names.some(({ elsewhere }) => elsewhere !== null)) return ['wait', 'renamed'];
  return lastDeliveryAt === null && lastPollAt === null ? ['soft', 'quiet so far'] : ['good', 'works'];
}

function detailsOf({ connector, schedule, units, walking, fetches, refusedFetches }: ConnectionStatus): string {
  return [
    connector,
    schedule ? `polls ${schedule}` : null,
    units > 1 ? `${count(units)} lists` : null,
    walking > 0 ? `${count(walking)} being read` : null,
    fetches > 0 ? `${counted(fetches, 'object')} to fetch` : null,
    refusedFetches > 0 ? `${counted(refusedFetches, 'object')} refused` : null,
  ]
    .filter((part) => part !== null)
    .join(' · ');
}

function placeWords({ failure, failingUnits }: ConnectionStatus): Markup | null {
  const place = failure?.unit ? html`in <code>${failure.unit}</code>` : null;
  const others = failingUnits > 1 ? html` and ${count(failingUnits - 1)} more` : null;
  return place || others ? html`<div class="hint">${place}${others}</div>` : null;
}

/** Lines of one kind that stand on a card: the first of many tell enough. */
const MOST_TROUBLES = 20;

/**
 * Faults of its webhooks at the vendor, names that lead elsewhere, and what is switched off or was not found.
 *
 * @param cause of the verdict: only what belongs to it
 */
export function troubles(
  { hooks, names, missingUnits, unverifiedItems, switchedOff, ...refused }: ConnectionStatus,
  cause?: string,
): readonly Markup[] {
  const failure = (words: string | null | undefined) =>
    words ? [html`<div class="text"><span class="wait">webhooks</span> ${words}</div>`] : [];
  const all: Readonly<Record<string, readonly Markup[]>> = {
    names_rebound: names.flatMap(reboundWords),
    renamed: names.flatMap(renamedWords),
    webhooks_silent: (hooks?.silent ?? []).map(silentWords),
    webhooks_unknown: failure(hooks?.failure),
    redeliveries_failing: failure(hooks?.redeliveryFailure),
    switched_off: switchedOff.map((message) => html`<div class="text">${message}</div>`),
    units_missing: missingUnits.map(
      (unit) => html`<div class="text"><span class="wait">not found</span> <code>${unit}</code></div>`,
    ),
    fetches_refused: stoppedWords('not fetched', 'object', refused.refusedFetches, refused.fetchRefusal),
    writes_refused: stoppedWords('not written', 'write', refused.refusedWrites, refused.writeRefusal),
    unverified:
      unverifiedItems > 0
        ? [
            html`<div class="text">${counted(unverifiedItems, 'item')} not confirmed since a restore: nothing is written about them</div>`,
          ]
        : [],
  };
  const wanted = cause === undefined ? Object.values(all) : [all[cause] ?? []];
  return wanted.flatMap(firstOf);
}

function stoppedWords(label: string, noun: string, number: number, reason: string | null): readonly Markup[] {
  if (number === 0) return [];
  return [html`<div class="text"><span class="wait">${label}</span> ${counted(number, noun)}: ${reason}</div>`];
}

function firstOf(lines: readonly Markup[]): readonly Markup[] {
  const more = lines.length - MOST_TROUBLES;
  if (more <= 0) return lines;
  return [...lines.slice(0, MOST_TROUBLES), html`<div class="hint">and ${count(more)} more</div>`];
}

type Name = ConnectionStatus['names'][number];

function reboundWords({ name, id, elsewhere }: Name): readonly Markup[] {
  if (elsewhere === null) return [];
  return [
    html`<div class="text"><span class="wait">scope_rebound</span> ${name} leads to ${elsewhere} now, and led to ${id} before</div>`,
  ];
}

function renamedWords({ name, called, elsewhere }: Name): readonly Markup[] {
  return elsewhere === null ? [html`<div class="text">${name} is now called ${called}</div>`] : [];
}

function silentWords({
  subject,
  state,
  message,
  hint,
}: NonNullable<ConnectionStatus['hooks']>['silent'][number]): Markup {
  return html`<div class="text"><span class="bad">webhook ${state}</span> at <code>${subject}</code>: ${message}${
    hint ? html`<div class="hint">${asTyped(hint)}</div>` : null
  }</div>`;
}
