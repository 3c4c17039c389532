import type { Verdict } from '../../admin/status.ts';
import { html, type Markup } from '../html.ts';

/** How much a word asks for attention; never said by colour alone. */
export type Tone = 'good' | 'wait' | 'bad' | 'soft';

/** A sign for each tone, so that nobody depends on colours. */
const SIGNS: Readonly<Record<Tone, string>> = { good: '●', wait: '◆', bad: '■', soft: '○' };

export function sign(tone: Tone): Markup {
  return html`<span class="mark" aria-hidden="true">${SIGNS[tone]}</span>`;
}

/** A short word for a state. */
export function chip(tone: Tone, words: string): Markup {
  return html`<span class="chip ${tone}">${sign(tone)}${words}</span>`;
}

export const VERDICT_TONES: Readonly<Record<Verdict, Tone>> = { ok: 'good', degraded: 'wait', blocked: 'bad' };

export function verdictChip(verdict: Verdict): Markup {
  return chip(VERDICT_TONES[verdict], verdict);
}

/** An id that people copy; the script adds the button. */
export function copyable(id: string, shown: string = id): Markup {
  return html`<code data-copy="${id}">${shown}</code>`;
}
