import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const TOP = join(import.meta.dirname, '../..');
const PAGE = readFileSync(join(TOP, 'src/workspace-service/README.md'), 'utf8');

/** The rows of the specification's tables and numbered lists, section by section. */
const SPECIFIED = [
  ...['`current`', 'workspaces are apart'].map((row) => `§1 ${row}`),
  ...['description', 'secret', 'owner', 'maximum active keys'].map((row) => `§2 API key: ${row}`),
  ...['title', 'description', 'reporterUserId', 'reportedAt', 'source', 'priority'].map((row) => `§2 Task: ${row}`),
  ...['teamIds', 'assigneeIds', 'labels'].map((row) => `§2 Task: ${row}`),
  '§2 Task document attachment',
  ...['filters', 'editable fields are replaced', 'ordered text operations'].map((row) => `§2 Document: ${row}`),
  ...['provider, repoId, identifier', 'headBranch', 'baseBranch', 'reviewers', 'labels, assignees'].map(
    (row) => `§2 Pull request: ${row}`,
  ),
  '§2 Signed upload URL',
  ...['code', 'message', 'errorCode'].map((row) => `§2 Error object: ${row}`),
  ...['API key: create', 'API key: revoke', 'Pull request: declined'].map((row) => `§3 ${row}`),
  ...['GET tasks', 'POST bugs', 'POST ideas', 'POST api-keys'].map((row) => `§4 ${row}`),
  ...['list pull-requests', 'create pull-requests', 'update pull-requests'].map((row) => `§4 ${row}`),
  ...['work-items', 'task documents', 'upload-url', 'document routes'].map((row) => `§4 ${row}`),
  '§5.1 bearer',
  '§5.2 `current` of a key',
  '§5.3 owners and admins manage keys',
  '§5.4 a key reads and writes',
  '§5.5 a key manages no keys',
  '§5.6 a key is refused on agent endpoints',
  '§5.7 default reporter',
  '§5.8 401 and 403',
  '§5.9 keys stay out of browsers',
  '§5.10 rotation',
  '§6 webhooks',
  ...['400', '401', '403', '429', '200, 201, 204'].map((row) => `§7 ${row}`),
  ...['active API keys', 'request quota', 'burst cap'].map((row) => `§8 ${row}`),
  ...['base path', 'version header'].map((row) => `§9 ${row}`),
];
const CHOICES = Array.from({ length: 34 }, (_, at) => `G${at + 1}`);

/** Rows of the table by name: the proofs named in each, as file and title. */
const ROWS = new Map(
  PAGE.split('## What is proven where')[1]!
    .split('\n')
    .flatMap((line) => {
      const [, name, proofs] = line.match(/^\| ([§G]\S* ?.*?) +\| ?(.*?) *\|$/) ?? [];
      return name === undefined ? [] : [[name.trim(), proofsOf(proofs!)] as const];
    }),
);

function proofsOf(cell: string): { file: string; title: string }[] {
  return Array.from(cell.matchAll(/`([\w./-]+)` "(.*?)"(?=; `|$)/g), ([, file, title]) => ({
    file: file!,
    title: title!,
  }));
}

/** First arguments of `it`, `it.each(…)` and `describe.each(…)`. */
function titlesOf(file: string): string[] {
  const text = readFileSync(join(TOP, 'test', file), 'utf8');
  const call = /(?:\bit(?:\.(?:runIf|skipIf)\(\w+\))?|\](?: as const)?,?\s*\)|\b[A-Z_]+\))\(\s*(['"`])(.*?)\1,/g;
  return Array.from(text.matchAll(call), ([, , title]) => title!);
}

describe('the table of proofs in src/workspace-service/README.md', () => {
  it('has a row for every row of the specification and every choice, and no other', () => {
    expect([...ROWS.keys()].toSorted()).toEqual([...SPECIFIED, ...CHOICES].toSorted());
  });

  it.each([...ROWS])('%s names tests that exist', (_name, proofs) => {
    expect(proofs).not.toEqual([]);
    for (const { file, title } of proofs) expect(titlesOf(file)).toContain(title);
  });
});
