import type { EffectOfRules, LabReport, LabSample } from '../admin/lab.ts';
import { describeLabEnd, laterCondition } from '../admin/lab-words.ts';
import { counted } from '../platform/lib/quantities.ts';
import { printable, span } from './words.ts';

const WORDS: Readonly<Record<EffectOfRules, string>> = {
  'add-link': 'links added',
  'remove-link': 'links removed',
  record: 'pull requests written',
  'create-task': 'tasks created',
  'update-task': 'tasks updated',
  'attach-document': 'documents attached',
};

/** Describes the effects of another configuration for people. */
export function describeLab(report: LabReport, now: number): string {
  const { items, ended, requests, drainedAt, without, effects, samples } = report;
  const wait = drainedAt - now;
  const time = wait > 1_000 ? `the last of them can be sent in ${span(wait)}` : 'all of them can be sent at once';
  return [
    `evaluated ${counted(items.open, 'open item')} and ${counted(items.finished, 'finished item')} by this configuration; nothing was written`,
    requests === 0 ? 'it would send no request now' : `it would send ${counted(requests, 'request')} now; ${time}`,
    ...(ended ? [describeLabEnd(ended)] : []),
    ...effects.map(describeEffect),
    ...without.map(
      ({ connection, items: left }) =>
        `  connection ${connection} is not in this configuration: its ${counted(left, 'item')} would stay as they are`,
    ),
    ...samples.map(describeSample),
    ...(requests > 0 ? ['changes that exceed the limits of "guard" would be held'] : []),
  ].join('\n');
}

function describeEffect({ effect, added, dropped, later }: LabReport['effects'][number]): string {
  const parts = [
    `${added} now`,
    ...(later > 0 ? [`${later} ${laterCondition(effect)}`] : []),
    ...(dropped > 0 ? [`${dropped} that wait would no longer be needed`] : []),
  ];
  return `  ${WORDS[effect]}: ${parts.join(', ')}`;
}

const SIGNS = { added: '+', later: '~', dropped: '-' } as const;

function describeSample({ effect, change, item, title, task, reason, sets }: LabSample): string {
  const what = [item, title === null ? null : `"${title}"`, task && `→ ${task}`].filter(Boolean).join(' ');
  const because = reason && `${reason.rule}: ${reason.text}`;
  const why = sets ? `  (${sets})` : because ? `  (${because})` : '';
  return printable(`    ${SIGNS[change]} ${effect}  ${what}${why}`);
}
