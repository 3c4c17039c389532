import { duration } from '../platform/lib/quantities.ts';
import { html, type Markup } from './html.ts';

/** When the last of the waiting requests is sent; null: nothing is sent. Less than a second is no wait. */
export function lastSent(at: number | null, now: number): Markup | string {
  if (at === null) return 'not while the workspace is blocked';
  return at >= now + 1_000 ? html`the last ${when(at, now)}` : 'now';
}

/** A moment relative to `now`; its exact time is in the tooltip. */
export function when(at: number | null, now: number): Markup {
  if (at === null) return html`<span class="none">–</span>`;
  const iso = new Date(at).toISOString();
  const words = at > now ? `in ${duration(at - now)}` : `${duration(now - at)} ago`;
  return html`<time datetime="${iso}" title="${iso}">${now - at < 1_000 && at <= now ? 'just now' : words}</time>`;
}
