import { html, type Markup } from '../html.ts';

/** Colours of the style sheet; the last one stands for all others. */
export const COLOURS = ['c1', 'c2', 'c3', 'c4', 'c5', 'c6'] as const;
export type Colour = (typeof COLOURS)[number];

interface Segment {
  readonly value: number;
  readonly colour: Colour;
}

/** A bar that is filled from the left by its segments in turn, up to `most`. */
export function meter(label: string, most: number, segments: readonly Segment[], limit: number | null = null): Markup {
  const width = (value: number) => Math.min(100, (Math.max(0, value) / Math.max(1, most)) * 100);
  let left = 0;
  const drawn = segments.map(({ value, colour }) => {
    const from = left;
    left = Math.min(100, left + width(value));
    return html`<rect class="${colour}" x="${from.toFixed(2)}" width="${(left - from).toFixed(2)}" height="6"/>`;
  });
  const line =
    limit === null || limit >= most
      ? null
      : html`<rect class="limit" x="${width(limit).toFixed(2)}" width="0.4" height="6"/>`;
  return html`<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="${label}">
<rect class="track" width="100" height="6"/>${drawn}${line}</svg>`;
}

export interface Series {
  readonly name: string;
  readonly colour: Colour;
  /** One for each column of the chart. */
  readonly values: readonly number[];
}

const HEIGHT = 100;
const GAP = 0.25;

export function stackedChart(label: string, series: readonly Series[], cap: number | null): Markup {
  const columns = Math.max(1, ...series.map(({ values }) => values.length));
  const sums = Array.from({ length: columns }, (_, at) =>
    series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
  );
  const highest = Math.max(1, ...sums, cap ?? 0);
  const scale = (value: number) => (value / highest) * HEIGHT;
  const drawn: Markup[] = [];
  for (let at = 0; at < columns; at++) {
    let top = HEIGHT;
    for (const { values, colour } of series) {
      const height = scale(values[at] ?? 0);
      if (height === 0) continue;
      top -= height;
      drawn.push(
        html`<rect class="${colour}" x="${at + GAP / 2}" y="${top.toFixed(2)}" width="${1 - GAP}" height="${height.toFixed(2)}"/>`,
      );
    }
  }
  const capAt = cap === null ? null : HEIGHT - scale(cap);
  return html`<svg class="chart" viewBox="0 0 ${columns} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}">
<line class="grid-line" x1="0" x2="${columns}" y1="${HEIGHT}" y2="${HEIGHT}"/>
${capAt === null ? null : html`<line class="cap-line" x1="0" x2="${columns}" y1="${capAt.toFixed(2)}" y2="${capAt.toFixed(2)}"/>`}
${drawn}</svg>`;
}

export function legend(entries: readonly { readonly colour: Colour; readonly words: Markup | string }[]): Markup {
  return html`<ul class="legend">${entries.map(
    ({ colour, words }) =>
      html`<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="${colour}" width="10" height="10" rx="2"/></svg><span>${words}</span></li>`,
  )}</ul>`;
}
