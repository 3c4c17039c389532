import { Marked, type RendererObject, type Tokens } from 'marked';
import { html, Markup } from './html.ts';

export interface MarkdownOptions {
  /** Where a link of the page leads; undefined for a target that is not served: its text stays. */
  readonly linkOf: (href: string) => string | undefined;
}

/** Rows below this heading have the code in their first cell for an anchor, so that a hint can name it. */
const CODES_HEADING = 'error-codes';

/**
 * HTML of one of our own pages. Headings have anchors as git hosts make them. HTML inside Markdown is shown as text, and
 * pictures as their words: the policy of the pages lets nothing else through either.
 */
export function renderMarkdown(text: string, { linkOf }: MarkdownOptions): Markup {
  let under = '';
  const renderer: RendererObject = {
    html: ({ text: raw }) => html`${raw}`.text,
    image: ({ text: words }) => html`${words}`.text,
    heading({ tokens, depth, text: raw }) {
      under = anchorOf(raw);
      const tag = new Markup(`h${depth}`);
      return html`<${tag} id="${under}">${new Markup(this.parser.parseInline(tokens))}</${tag}>\n`.text;
    },
    link({ href, tokens }) {
      const words = new Markup(this.parser.parseInline(tokens));
      const target = linkOf(href);
      return target === undefined ? words.text : html`<a href="${target}" rel="noreferrer">${words}</a>`.text;
    },
    table({ header, rows }) {
      const cells = (row: readonly Tokens.TableCell[], tag: Markup) =>
        row.map(({ tokens }) => html`<${tag}>${new Markup(this.parser.parseInline(tokens))}</${tag}>`);
      const body = rows.map((row) => {
        const id = under === CODES_HEADING ? html` id="${row[0]?.text.replaceAll('`', '') ?? ''}"` : null;
        return html`<tr${id}>${cells(row, new Markup('td'))}</tr>\n`;
      });
      // It scrolls where it is wider than the window: then people must get there with the keyboard too.
      return html`<div class="card wide" role="group" aria-label="Table" tabindex="0"><table><thead><tr>${cells(header, new Markup('th'))}</tr></thead>
<tbody>${body}</tbody></table></div>\n`.text;
    },
  };
  return new Markup(new Marked({ renderer, async: false }).parse(text) as string);
}

function anchorOf(heading: string): string {
  return heading
    .replace(/\[([^[\]]*)\]\([^()]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}
