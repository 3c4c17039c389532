import type { WorkspaceState, WorkspaceStatus } from '../../admin/status.ts';
import type { WindowSnapshot } from '../../model/windows.ts';
import { count, counted, duration } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { lastSent, when } from '../moment.ts';
import { legend, meter } from './drawings.ts';

/** Both windows of the quota as they are now. */
export function quotaCard({ quota, state, backlog }: WorkspaceStatus, now: number): Markup {
  const share = `${Math.round(quota.effectiveShare * 100)} %`;
  const isLowered = quota.effectiveShare < quota.ceiling - 0.001;
  return html`<section class="card stack"><div class="row"><h2>Request quota</h2><span class="hint">${counted(quota.inFlight, 'request')} in flight</span></div>
${windowMeter(quota.long)}
${windowMeter(quota.burst)}
${legend([
  { colour: 'c1', words: `worksync: at most ${share} of the long window` },
  { colour: 'c2', words: 'people, commands and jobs' },
])}
<dl class="facts wide"><div><dt>Sending</dt><dd>${stateWords(state, now)}</dd></div>
<div><dt>All sent</dt><dd>${backlog.requests === 0 ? 'nothing waits' : lastSent(backlog.lastSentAt, now)}</dd></div></dl>
${isLowered ? html`<p class="hint">Others use this workspace too, so the share is below its usual ${Math.round(quota.ceiling * 100)} %.</p>` : null}
${quota.limited ? html`<p class="wait">The workspace refused requests recently: one goes at a time.</p>` : null}
${quota.paused ? html`<p class="wait">Paused (${quota.paused.reason}); goes on ${when(quota.paused.until, now)}.</p>` : null}</section>`;
}

function stateWords(state: WorkspaceState, now: number): Markup | string {
  if (state.kind === 'running') return 'sends changes as they come due';
  if (state.kind === 'halted') return html`<span class="bad">sends nothing: ${state.code}</span>`;
  return html`<span class="wait">waits (${state.reason})</span> for ${duration(Math.max(0, state.until - now))}`;
}

function windowMeter({ window, cap, used, usedByBackground, backgroundLimit }: WindowSnapshot): Markup {
  const span = duration(window);
  if (cap === null)
    return html`<div class="row"><span>in ${span}</span><span class="num">${count(used)}, no limit</span></div>`;
  return html`<div><div class="row"><span>in ${span}</span><span class="num"><span class="strong">${count(used)}</span> of ${count(cap)}</span></div>
${meter(
  `${used} of ${cap} requests in ${span}`,
  cap,
  [
    { value: usedByBackground, colour: 'c1' },
    { value: used - usedByBackground, colour: 'c2' },
  ],
  backgroundLimit,
)}</div>`;
}
