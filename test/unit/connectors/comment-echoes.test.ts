import { describe, expect, it } from 'vitest';
import { azureBoards } from '../../../src/connectors/azure-boards/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { jira } from '../../../src/connectors/jira/index.ts';
import { linear } from '../../../src/connectors/linear/index.ts';
import { redmine } from '../../../src/connectors/redmine/index.ts';
import { isEcho, type PostedComment } from '../../../src/model/notice.ts';
import { courseOf, type Turn, translationsOf } from '../../support/vendors/course.ts';
import { altered, fixture } from '../../support/vendors/model-providers/provider.ts';

const { signal } = new AbortController();
const UUID = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const ME = 'd291b0c4-a05c-4ea6-8df1-4b41d5f39eff';
const ISSUE = '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9';
const PROJECT = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const DESIRED = { marker: '<!-- worksync:ws_1:tasks -->', text: 'Linked to BUG-1 and BUG-2.' };
const SHOWN = `${DESIRED.text}\n\nworksync:ws_1:tasks`;

/** An edit of a comment, as the vendor's webhook reports it: its account, its text with `\n` as the end of lines, its id. */
type Webhook = (by: string, says: string, id?: string) => unknown;

interface Vendor {
  readonly name: string;
  readonly connector: Connector<never>;
  readonly given: object;
  readonly origin: string;
  readonly locator: Readonly<Record<string, string>>;
  /** The requests that write the comment of `me`. */
  readonly course: readonly Turn[];
  readonly event?: string;
  readonly me?: string;
  /** The text as the vendor shows it, unless with the words of the marker. */
  readonly written?: string;
  readonly webhook: Webhook;
  /** Webhooks about no present text, or about more than a text. */
  readonly others?: Readonly<Record<string, Webhook>>;
}

// The person who edits a comment may not be its author.
const ofJira: Webhook = (by, says) =>
  altered(fixture('jira', 'comment_created'), {
    ...{ 'comment.id': '9', 'comment.body': says, 'comment.author': { accountId: ME } },
    'comment.updateAuthor': { accountId: by },
  });
const ofLinear: Webhook = (by, says, id) =>
  altered(fixture('linear', 'comment.create'), {
    ...{ 'actor.id': by, 'data.id': id, 'data.body': says, 'data.userId': ME },
  });
const html = (says: string) => `<div>${says.replaceAll('\n', '<br>')}</div>`;
const azureUpdate = (by: string, says: string, more: object = {}) =>
  altered(fixture('azure-boards', 'workitem.updated'), {
    'resource.revisedBy': { id: by },
    'resource.fields': {
      ...{ 'System.Rev': { oldValue: 4, newValue: 5 }, 'System.CommentCount': { oldValue: 0, newValue: 1 } },
      ...{ 'System.History': { newValue: html(says) }, ...more },
    },
  });
const ofRedmine = (by: string, says: string, details: readonly object[] = []) =>
  altered(fixture('redmine', 'issue.updated'), {
    'data.journal.notes': says.replaceAll('\n', '\r\n'),
    ...{ 'data.journal.user': { id: Number(by), name: 'x' }, 'data.journal.details': details },
  });

const JIRA = '/rest/api/3/issue/10023/comment';
const AZURE = `/${PROJECT}/_apis/wit/workItems/299/comments?api-version=7.1-preview.4`;
const atAzure = {
  connector: azureBoards as Connector<never>,
  given: { organization: 'acme', organizationId: UUID, projects: [PROJECT], token: 'x' },
  ...{ origin: 'https://dev.azure.com/acme', locator: { id: '299', projectId: PROJECT } },
  course: [
    [`GET ${AZURE}&$top=200`, { body: { comments: [] } }],
    [`POST ${AZURE}`, { body: { id: 4, createdBy: { id: ME } } }],
  ] as readonly Turn[],
};
const posted = { commentCreate: { success: true, comment: { id: ISSUE, user: { id: ME } } } };

const VENDORS: readonly Vendor[] = [
  {
    ...{ name: 'Jira', connector: jira as Connector<never>, origin: 'https://acme.atlassian.net' },
    given: {
      site: 'acme.atlassian.net',
      cloudId: UUID,
      projects: ['ENG'],
      email: 'a@x.io',
      token: 'x',
      publicComments: true,
    },
    locator: { issueId: '10023', projectId: '10008', issueKey: 'ENG-1' },
    course: [
      [`GET ${JIRA}?startAt=0&maxResults=100&orderBy=-created`, { body: { comments: [], total: 0 } }],
      [`POST ${JIRA}`, { body: { id: '9', author: { accountId: ME }, updateAuthor: { accountId: ME } } }],
    ],
    webhook: ofJira,
    others: { removed: (by, says) => altered(ofJira(by, says), { webhookEvent: 'comment_deleted' }) },
  },
  {
    ...{ name: 'Linear', connector: linear as Connector<never>, origin: 'https://api.linear.app' },
    given: { organizationId: UUID, teams: ['ENG'], apiKey: 'lin_api_x' },
    locator: { issueId: ISSUE, teamId: ISSUE, identifier: 'ENG-123' },
    course: [
      ['POST /graphql', { body: { data: { comments: { nodes: [] } } } }],
      ['POST /graphql', { body: { data: posted } }],
    ],
    ...{ event: 'Comment', written: DESIRED.text, webhook: ofLinear },
    others: { removed: (...edit) => altered(ofLinear(...edit), { action: 'remove' }) },
  },
  {
    ...{ ...atAzure, name: 'Azure Boards' },
    webhook: (by, says) =>
      altered(fixture('azure-boards', 'workitem.commented'), {
        ...{ 'resource.fields': { 'System.History': html(says), 'System.ChangedBy': { id: by } } },
      }),
  },
  {
    ...{ ...atAzure, name: 'Azure Boards, as an update', webhook: (by, says) => azureUpdate(by, says) },
    others: {
      'written with a change of the state': (by, says) =>
        azureUpdate(by, says, { 'System.State': { oldValue: 'New', newValue: 'Active' } }),
    },
  },
  {
    ...{ name: 'Redmine', connector: redmine as Connector<never>, origin: 'https://redmine.example.com' },
    ...{ given: { url: 'https://redmine.example.com', projects: ['website'], apiKey: 'x' }, me: '3' },
    locator: { issueId: '318', projectId: '12' },
    course: [
      ['GET /users/current.json', { body: { user: { id: 3, login: 'sync' } } }],
      ['GET /issues/318.json?include=journals', { body: { issue: { id: 318, journals: [] } } }],
      ['PUT /issues/318.json', { status: 204 }],
    ],
    webhook: (by, says) => ofRedmine(by, says),
    others: {
      'written with a change of the state': (by, says) =>
        ofRedmine(by, says, [{ property: 'attr', prop_key: 'status_id' }]),
    },
  },
];

describe.each(VENDORS)('$name', (vendor) => {
  const {
    connector,
    given,
    origin,
    course,
    event = 'webhook',
    me = ME,
    written = SHOWN,
    webhook,
    others = {},
  } = vendor;
  const { hook } = translationsOf({ connector, given });

  const write = (turns: readonly Turn[], isCorrection = false) => {
    const { connection } = courseOf(connector, given, origin, turns);
    const reference = { kind: 'work_item', key: `${connector.id}:x:1`, locator: vendor.locator } as const;
    return connection.comment(reference, { ...DESIRED, isCorrection }, signal) as Promise<PostedComment | undefined>;
  };

  async function isOurs(edited: Webhook, { by = me, says = written } = {}): Promise<boolean> {
    const ours = (await write(course)) as PostedComment;
    const translation = hook(event, edited(by, says, ours.id));
    expect(translation).toMatchObject({ outcome: 'references', references: [expect.anything()] });
    const reported = translation.outcome === 'references' ? translation.comment : undefined;
    return reported !== undefined && isEcho(reported, ours);
  }

  it('recognizes the webhook about our own comment as an echo', async () => {
    expect(await isOurs(webhook)).toBe(true);
  });

  it.each([
    ['another author wrote it', { by: me === ME ? 'aacdca22-6266-4c0a-ab3c-8fa70a26765c' : '7' }],
    ['its text was edited by our account', { says: `${written}\n\nand fixes BUG-3` }],
    ['its marker names another workspace', { says: written.replace('ws_1', 'ws_2').replace('BUG-2', 'BUG-22') }],
  ])('recognizes no echo if %s', async (_, edit) => {
    expect(await isOurs(webhook, edit)).toBe(false);
  });

  it.each(Object.entries(others))('recognizes no echo if it was %s', async (_, other) => {
    expect(await isOurs(other)).toBe(false);
  });
});
