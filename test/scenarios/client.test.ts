import { afterEach, describe, expect, it } from 'vitest';
import type { Fault } from '../../src/reference-service/http/pipeline.ts';
import {
  type ConnectOptions,
  connect,
  type Workspace,
  type WorkspaceError,
} from '../../src/workspace-api/client/client.ts';
import {
  NO_QUOTA,
  SPECIFIED_QUOTA,
  startWorkspaceService,
  type TestService,
} from '../support/fakes/workspace-service.ts';

let running: TestService;
let client: Workspace;
/** Faults of the next requests, first to last. */
let faults: (Fault | undefined)[] = [];
let asked: string[] = [];

async function start(quota = NO_QUOTA, options: Partial<ConnectOptions> = {}): Promise<void> {
  faults = [];
  asked = [];
  running = await startWorkspaceService({
    quota,
    faults: {
      async before({ method, url }) {
        asked.push(`${method} ${url.replace('/api/v1/workspaces/current', '')}`);
        return faults.shift();
      },
    },
  });
  client = connect({ url: running.url, apiKey: running.apiKey, quota, ...options });
}

afterEach(async () => {
  await client.close();
  await running.close();
});

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: WorkspaceError) => error,
  );
const bug = (title: string) => client.createBug({ body: { title } });

describe('the client', () => {
  it('calls operations by their names, with typed answers', async () => {
    await start();
    const { status, body } = await bug('Pay by card');
    expect(status).toBe(201);
    const found = await client.getTask({ taskId: body.taskId });
    expect(found.body.title).toBe('Pay by card');
  });

  it('reads all pages, each when the one before was taken', async () => {
    await start();
    for (const title of ['a', 'b', 'c', 'd', 'e']) await bug(title);
    asked = [];
    const titles: string[][] = [];
    for await (const { tasks } of client.pages('listTasks', { query: { limit: 2 } })) {
      titles.push(tasks.map(({ title }) => title));
      expect(asked).toHaveLength(titles.length);
    }
    expect(titles).toEqual([['e', 'd'], ['c', 'b'], ['a']]);
  });

  it('repeats reads that failed, and no write that may have been carried out', async () => {
    await start();
    faults = [{ status: 503 }, 'cut'];
    expect((await client.listTasks({})).status).toBe(200);
    expect(asked).toEqual(['GET /tasks', 'GET /tasks', 'GET /tasks']);
    asked = [];
    faults = [{ status: 500 }];
    expect(await failureOf(bug('once'))).toMatchObject({ code: 'server_failed' });
    faults = ['cut'];
    expect(await failureOf(bug('once'))).toMatchObject({ code: 'outcome_unknown' });
    expect(asked).toEqual(['POST /bugs', 'POST /bugs']);
  });

  it('is never refused while it is alone, however many calls come at once', async () => {
    const quota = { requests: 30, window: 500, burst: 10, burstWindow: 100 };
    await start(quota);
    const answers = await Promise.all(Array.from({ length: 45 }, () => client.listTasks({})));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(asked).toHaveLength(45);
  });

  it('waits as long as a refusal says where others use the quota too, writes as well', async () => {
    await start({ ...SPECIFIED_QUOTA, burst: 1, burstWindow: 1_000 }, { quota: 'off' });
    await client.listTasks({});
    const [first, second] = await Promise.all([bug('a'), bug('b')]);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect((await client.listTasks({})).body.tasks).toHaveLength(2);
  });
});
