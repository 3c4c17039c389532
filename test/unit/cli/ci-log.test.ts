import { expect, it } from 'vitest';
import type { PullRequestTasks } from '../../../src/admin/pull-request-tasks.ts';
import { annotation, ciText, describeTasks, summaryOf } from '../../../src/cli/ci-log.ts';

const HOSTILE =
  '::error::x ##vso[task.setvariable variable=y]z ##[group]a \u001b[0Ksection_start:1:b\n::stop-commands::c';

const answer: PullRequestTasks = {
  pullRequest: { name: 'acme/app#7', url: null, title: HOSTILE, connection: 'github' },
  tasks: [
    { key: 'BUG-12', title: 'Login <b>fails</b> | [now](x)', status: 'in_progress', state: 'linked' },
    { key: 'BUG-13', title: null, status: null, state: 'waiting' },
  ],
  notLinked: [{ text: HOSTILE, place: 'title', why: 'there is no task and no item of that name' }],
  expectedFrom: [],
  example: 'BUG-12',
};

it('is read by people', () => {
  const plain = { ...answer, pullRequest: { ...answer.pullRequest!, title: 'Pay by card' } };
  expect(describeTasks({ ...plain, notLinked: [{ text: 'BUG-99', place: 'title', why: 'there is no task' }] })).toBe(
    [
      'acme/app#7 "Pay by card" is linked to 2 tasks',
      '  BUG-12  in_progress  Login <b>fails</b> | [now](x)',
      '  BUG-13                                              (the link waits to be sent)',
      'named, but not linked:',
      '  "BUG-99" (title): there is no task',
    ].join('\n'),
  );
  expect(describeTasks({ ...plain, tasks: [], notLinked: [] })).toBe('acme/app#7 "Pay by card" is linked to no task');
});

it('commands no CI service, whoever wrote the texts', () => {
  for (const text of [describeTasks(answer), summaryOf(answer), summaryOf({ ...answer, tasks: [] }), ciText(HOSTILE)]) {
    expect(text).not.toMatch(/::|##/);
    expect(text).not.toContain('\u001b');
  }
  expect(describeTasks(answer).split('\n')).toHaveLength(5);
});

it.each(['###[add-mask]x', '####vso[x]', ':::error::x', '::::error::x'])('%s commands none either', (text) => {
  expect(ciText(text)).not.toMatch(/::|##/);
});

it('a summary shows texts as they are, and no more than some lines', () => {
  expect(summaryOf(answer)).toContain('Login &#60;b&#62;fails&#60;/b&#62; &#124; &#91;now&#93;&#40;x&#41;');
  const many = { ...answer, tasks: Array.from({ length: 50 }, () => answer.tasks[0]!) };
  expect(summaryOf(many).match(/BUG/g)).toHaveLength(20);
  expect(summaryOf(many)).toContain('and 30 more');
});

it('an annotation is one line', () => {
  expect(annotation('error', { message: 'a\r\n::b', hint: '100 % c' })).toBe(
    '::error title=worksync::a%0D%0A::b. 100 %25 c',
  );
});
