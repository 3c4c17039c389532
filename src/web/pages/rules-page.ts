import { writtenConfiguration } from '../../admin/installation/effective-config.ts';
import { describeLabEnd, laterCondition } from '../../admin/labels.ts';
import type { LabReport, LabSample } from '../../admin/workspace/lab.ts';
import { asSyncError } from '../../model/errors.ts';
import { commandAsTyped } from '../../platform/lib/own-program.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { chip, dataTable, fieldText, html, type Markup, type Tone, when } from '../html.ts';
import { linkTo, mayAct, type PageContent, pathOf, request, type WorkspacePageContext } from './page-content.ts';
import { tokenField } from './page-frame.ts';
import { errorBox, note, shownErrorOf } from './problem-content.ts';

const SAMPLES = 20;

/**
 * The lab: what another configuration would write, over all items known. The form begins with the file in use, or empty if
 * the file cannot be read now.
 */
export async function rulesPage(context: WorkspacePageContext): Promise<PageContent> {
  if (!mayAct(context)) return { title: 'Rules', parts: [labPart(context, '')] };
  try {
    const config = await writtenConfiguration(context.partition, context.scrub);
    return { title: 'Rules', parts: [labPart(context, config)] };
  } catch (error) {
    const reason = errorBox('The present file cannot be shown', context.clean(shownErrorOf(asSyncError(error))));
    return { title: 'Rules', parts: [{ id: 'answer', body: reason }, labPart(context, '')] };
  }
}

/** Shows the lab with its report, or with the reason why the configuration is refused. */
export async function triedRulesPage(context: WorkspacePageContext, config: string): Promise<PageContent> {
  const lab = labPart(context, config);
  try {
    const report = context.clean(await request(context, 'lab', { config, limit: SAMPLES }));
    const samples = { id: 'samples', body: samplesTable(context.partition.name, report.samples) };
    return { title: 'Rules', parts: [{ id: 'answer', body: answer(context, report) }, samples, lab] };
  } catch (error) {
    const refusal = errorBox('This did not work', context.clean(shownErrorOf(asSyncError(error))));
    return { title: 'Rules', parts: [{ id: 'answer', body: refusal }, lab], status: 422 };
  }
}

function labPart(context: WorkspacePageContext, config: string) {
  return { id: 'lab', body: labForm(context, config), isForm: true as const };
}

function labForm(context: WorkspacePageContext, config: string): Markup {
  const { session } = context.caller;
  const intro = html`<h2>Try a configuration</h2><p class="soft">worksync evaluates the items that it knows by the text of a workspace’s file, and tells which links, records and tasks it
would write. It writes nothing and sends no request. The form begins with the text of the present file, without its comments; <code>\${SECRET}</code> stands for a secret that is written in it.</p>`;
  if (!mayAct(context) || !session)
    return html`<section class="card stack">${intro}<p class="hint">To try one, log in as an administrator; or on the machine: <code>${commandAsTyped('plan --config FILE', context.named)}</code></p></section>`;
  return html`<section class="card stack">${intro}<form class="stack" method="post" action="${pathOf(context.partition.name, 'rules')}">${tokenField(session.pageToken)}
<label>A file<br><input type="file" data-fills="config" accept=".yaml,.yml,.json"></label>
<label>Configuration, as YAML<textarea id="config" name="config" required spellcheck="false">${fieldText(config)}</textarea></label>
<div><button class="main">Try it</button></div></form></section>`;
}

const EFFECT_WORDS: Readonly<Record<LabSample['effect'], string>> = {
  'add-link': 'Links added',
  'remove-link': 'Links removed',
  record: 'Records written',
  'create-task': 'Tasks created',
  'update-task': 'Tasks updated',
  'attach-document': 'Documents attached',
};

function answer({ now }: WorkspacePageContext, report: LabReport): Markup {
  const { inUse, items, ended, without, effects, requests, drainedAt } = report;
  const all = items.open + items.finished;
  const left = without.map(
    ({ connection, items: many }) =>
      html`<p class="hint">${counted(many, 'item')} of ${connection}, which it does not have, stay as they are.</p>`,
  );
  const part = ended && html`<p class="hint">It ended early: ${describeLabEnd(ended)}.</p>`;
  const headline = effects.length === 0 ? 'It would change nothing' : `It would cost ${counted(requests, 'request')}`;
  const time =
    requests === 0 ? null : html`<p>The last of them could go ${when(drainedAt, now)}, behind those that wait.</p>`;
  return html`${note(
    effects.length === 0 ? 'good' : 'wait',
    headline,
    html`${time}<p class="soft">${counted(all, 'item')} evaluated, ${count(items.open)} of them open.${inUse ? ' It is the configuration in use.' : ''}</p>${part}${left}`,
  )}${dataTable<LabReport['effects'][number]>({
    title: 'What it would do',
    rows: effects,
    empty: 'Nothing.',
    columns: [
      { title: 'Effect', kind: 'name', cell: ({ effect }) => EFFECT_WORDS[effect] },
      { title: 'Soon', kind: 'number', isTitled: true, cell: ({ added }) => count(added) },
      {
        title: 'Later',
        kind: 'text',
        cell: ({ effect, later }) => (later === 0 ? null : `${count(later)} ${laterCondition(effect)}`),
      },
      { title: 'No longer needed', kind: 'number', isTitled: true, cell: ({ dropped }) => count(dropped) },
    ],
  })}`;
}

const CHANGE_WORDS: Readonly<Record<LabSample['change'], readonly [tone: Tone, words: string]>> = {
  added: ['wait', 'soon'],
  later: ['soft', 'later'],
  dropped: ['soft', 'no longer'],
};

function samplesTable(workspace: string, samples: readonly LabSample[]): Markup {
  return dataTable<LabSample>({
    title: 'Samples',
    rows: samples,
    empty: 'There are none.',
    columns: [
      { title: 'When', kind: 'state', cell: ({ change }) => chip(...CHANGE_WORDS[change]) },
      { title: 'Effect', kind: 'tight', cell: ({ effect }) => EFFECT_WORDS[effect] },
      {
        title: 'Item',
        kind: 'name',
        cell: ({ item, title, url }) => {
          const words = title ?? url ?? item ?? '–';
          return item === null ? words : linkTo(workspace, 'item', { name: item }, words);
        },
      },
      { title: 'Task', kind: 'tight', cell: ({ task }) => task },
      {
        title: 'Why',
        kind: 'text',
        cell: ({ reason, sets }) =>
          sets ?? (reason && html`the ${reason.place.replaceAll('_', ' ')} says ${nameWords(workspace, reason.text)}`),
      },
    ],
  });
}

/** `ENG-123`, `owner/repo#12` */
const NAME = /^(?:[A-Za-z][\w]*-\d+|[\w./-]+#\d+)$/;

/** A text that asked for a link; where it is a name, it leads to what has that name. */
function nameWords(workspace: string, text: string): Markup {
  const words = html`<code>${text}</code>`;
  return NAME.test(text) ? linkTo(workspace, 'item', { name: text }, words) : words;
}
