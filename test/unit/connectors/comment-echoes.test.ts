import { describe, expect, it } from 'vitest';
import { azureBoards } from '../../../src/connectors/azure-boards/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { jira } from '../../../src/connectors/jira/index.ts';
import { linear } from '../../../src/connectors/linear/index.ts';
import { redmine } from '../../../src/connectors/redmine/index.ts';
import type { ItemReference } from '../../../src/model/item.ts';
import { isEcho, type PostedComment } from '../../../src/model/notice.ts';
import { courseOf, type Turn } from '../../support/vendors/course.ts';
import { fixture as contentOf } from '../../support/vendors/model-providers/provider.ts';

const { signal } = new AbortController();
const UUID = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const ME = 'd291b0c4-a05c-4ea6-8df1-4b41d5f39eff';
const ADA = 'aacdca22-6266-4c0a-ab3c-8fa70a26765c';
const ISSUE = '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9';
const PROJECT = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const DESIRED = { marker: '<!-- worksync:ws_1:tasks -->', text: 'Linked to BUG-1 and BUG-2.' };

/** An edit of a comment, as the vendor's webhook reports it. */
interface Edit {
  readonly by: string;
  /** The text without markup; its lines end with `\n`. */
  readonly says: string;
  readonly id: string;
}

interface Vendor {
  readonly name: string;
  readonly connector: Connector<never>;
  readonly options: object;
  readonly origin: string;
  readonly reference: ItemReference;
  /** The requests that write the comment of `ME`, whose id is that of `ours`. */
  readonly course: readonly Turn[];
  readonly event: string;
  readonly me: string;
  readonly somebody: string;
  /** The text as the vendor shows it. */
  readonly written: string;
  /** The comment's id, if the webhook contains it. */
  readonly id: (posted: PostedComment) => string;
  readonly webhook: (edit: Edit) => object;
  /** Webhooks about no present text, or about more than a text. */
  readonly others: Readonly<Record<string, (edit: Edit) => object>>;
}

/** A fixture whose parts a test changes. */
const fixture = contentOf<ReturnType<JSON['parse']>>;

const shown = `${DESIRED.text}\n\nworksync:ws_1:tasks`;

function jiraComment({ by, says, id }: Edit) {
  const whole = fixture('jira', 'comment_created');
  const account = { accountId: by };
  // The person who edits a comment may not be its author.
  return { ...whole, comment: { ...whole.comment, id, body: says, author: { accountId: ME }, updateAuthor: account } };
}

function linearComment({ by, says, id }: Edit) {
  const whole = fixture('linear', 'comment.create');
  return { ...whole, actor: { ...whole.actor, id: by }, data: { ...whole.data, id, body: says, userId: ME } };
}

const html = (says: string) => `<div>${says.replaceAll('\n', '<br>')}</div>`;

function azureComment({ by, says }: Edit) {
  const whole = fixture('azure-boards', 'workitem.commented');
  const fields = { ...whole.resource.fields, 'System.History': html(says), 'System.ChangedBy': { id: by } };
  return { ...whole, resource: { ...whole.resource, fields } };
}

function azureUpdate({ by, says }: Edit, more: object = {}) {
  const whole = fixture('azure-boards', 'workitem.updated');
  const fields = {
    'System.Rev': { oldValue: 4, newValue: 5 },
    'System.CommentCount': { oldValue: 0, newValue: 1 },
    'System.History': { newValue: html(says) },
    ...more,
  };
  return { ...whole, resource: { ...whole.resource, revisedBy: { id: by }, fields } };
}

function redmineNote({ by, says }: Edit, details: object[] = []) {
  const whole = fixture('redmine', 'issue.updated');
  const journal = {
    ...whole.data.journal,
    notes: says.replaceAll('\n', '\r\n'),
    user: { id: Number(by), name: 'x' },
    details,
  };
  return { ...whole, data: { ...whole.data, journal } };
}

const JIRA = '/rest/api/3/issue/10023/comment';
const AZURE = `/${PROJECT}/_apis/wit/workItems/299/comments`;
const PREVIEW = 'api-version=7.1-preview.4';

function azure(name: string, webhook: Vendor['webhook'], others: Vendor['others'] = {}): Vendor {
  return {
    name,
    connector: azureBoards as Connector<never>,
    options: { organization: 'acme', organizationId: UUID, projects: [PROJECT], token: 'x' },
    origin: 'https://dev.azure.com/acme',
    reference: { kind: 'work_item', key: 'azure-boards:x:299', locator: { id: '299', projectId: PROJECT } },
    course: [
      [`GET ${AZURE}?${PREVIEW}&$top=200`, { body: { comments: [] } }],
      [`POST ${AZURE}?${PREVIEW}`, { body: { id: 4, createdBy: { id: ME } } }],
    ],
    event: 'webhook',
    me: ME,
    somebody: ADA,
    written: shown,
    id: () => '',
    webhook,
    others,
  };
}

const VENDORS: readonly Vendor[] = [
  {
    name: 'Jira',
    connector: jira as Connector<never>,
    options: {
      site: 'acme.atlassian.net',
      cloudId: UUID,
      projects: ['ENG'],
      email: 'a@example.com',
      token: 'x',
      publicComments: true,
    },
    origin: 'https://acme.atlassian.net',
    reference: {
      kind: 'work_item',
      key: 'jira:x:10023',
      locator: { issueId: '10023', projectId: '10008', issueKey: 'ENG-1' },
    },
    course: [
      [`GET ${JIRA}?startAt=0&maxResults=100&orderBy=-created`, { body: { comments: [], total: 0 } }],
      [`POST ${JIRA}`, { status: 201, body: { id: '9', author: { accountId: ME }, updateAuthor: { accountId: ME } } }],
    ],
    event: 'webhook',
    me: ME,
    somebody: ADA,
    written: shown,
    id: () => '9',
    webhook: jiraComment,
    others: { removed: (edit) => ({ ...jiraComment(edit), webhookEvent: 'comment_deleted' }) },
  },
  {
    name: 'Linear',
    connector: linear as Connector<never>,
    options: { organizationId: UUID, teams: ['ENG'], apiKey: 'lin_api_x' },
    origin: 'https://api.linear.app',
    reference: {
      kind: 'work_item',
      key: 'linear:x:1',
      locator: { issueId: ISSUE, teamId: ISSUE, identifier: 'ENG-123' },
    },
    course: [
      ['POST /graphql', { body: { data: { comments: { nodes: [] } } } }],
      [
        'POST /graphql',
        { body: { data: { commentCreate: { success: true, comment: { id: ISSUE, user: { id: ME } } } } } },
      ],
    ],
    event: 'Comment',
    me: ME,
    somebody: ADA,
    written: DESIRED.text,
    webhook: linearComment,
    id: ({ id }) => id ?? 'none',
    others: { removed: (edit) => ({ ...linearComment(edit), action: 'remove' }) },
  },
  azure('Azure Boards', azureComment),
  azure('Azure Boards, as an update', (edit) => azureUpdate(edit), {
    'written with a change of the state': (edit) =>
      azureUpdate(edit, { 'System.State': { oldValue: 'New', newValue: 'Active' } }),
  }),
  {
    name: 'Redmine',
    connector: redmine as Connector<never>,
    options: { url: 'https://redmine.example.com', projects: ['website'], apiKey: 'x' },
    origin: 'https://redmine.example.com',
    reference: { kind: 'work_item', key: 'redmine:x:318', locator: { issueId: '318', projectId: '12' } },
    course: [
      ['GET /users/current.json', { body: { user: { id: 3, login: 'sync' } } }],
      ['GET /issues/318.json?include=journals', { body: { issue: { id: 318, journals: [] } } }],
      ['PUT /issues/318.json', { status: 204 }],
    ],
    event: 'webhook',
    me: '3',
    somebody: '7',
    written: shown,
    id: () => '',
    webhook: (edit) => redmineNote(edit),
    others: {
      'written with a change of the state': (edit) => redmineNote(edit, [{ property: 'attr', prop_key: 'status_id' }]),
    },
  },
];

describe.each(VENDORS)('$name', (vendor) => {
  const { connector, options, origin, course, event, me, somebody, written, others } = vendor;

  async function postComment(): Promise<PostedComment> {
    const { connection } = courseOf(connector, options, origin, course);
    const made = await connection.comment?.(vendor.reference, DESIRED, signal);
    return made!;
  }

  function isOurs(payload: object, ours: PostedComment): boolean {
    const body = Buffer.from(JSON.stringify(payload));
    const translation = connector.translate({ source: 'webhook', event, body }, connector.options.parse(options));
    expect(translation).toMatchObject({ outcome: 'references', references: [expect.anything()] });
    const reported = translation.outcome === 'references' ? translation.comment : undefined;
    return reported !== undefined && isEcho(reported, ours);
  }

  it('posts no correction if there is no comment to correct', async () => {
    // The last request is the one that posts.
    const { connection } = courseOf(connector, options, origin, course.slice(0, -1));
    const correction = { ...DESIRED, isCorrection: true };
    expect(await connection.comment?.(vendor.reference, correction, signal)).toBeUndefined();
  });

  it('recognizes the webhook about our own comment as an echo', async () => {
    const ours = await postComment();
    expect(isOurs(vendor.webhook({ by: me, says: written, id: vendor.id(ours) }), ours)).toBe(true);
  });

  it.each<[string, Partial<Edit>]>([
    ['another author wrote it', { by: somebody }],
    ['its text was edited by our account', { says: `${written}\n\nand fixes BUG-3` }],
    ['its marker names another workspace', { says: written.replace('ws_1', 'ws_2').replace('BUG-2', 'BUG-22') }],
  ])('recognizes no echo if %s', async (_, edit) => {
    const ours = await postComment();
    expect(isOurs(vendor.webhook({ by: me, says: written, id: vendor.id(ours), ...edit }), ours)).toBe(false);
  });

  it.each(Object.keys(others))('recognizes no echo if it was %s', async (name) => {
    const ours = await postComment();
    expect(isOurs(others[name]!({ by: me, says: written, id: vendor.id(ours) }), ours)).toBe(false);
  });
});
