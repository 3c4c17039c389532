import { afterEach, describe, expect, it } from 'vitest';
import { describeExplained, describeItems } from '../../src/cli/items/show-items.ts';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { type Behaviours, eachOnce, singles } from '../support/fakes/plausible-server/dimensions.ts';
import { exceptionsOf } from '../support/fakes/plausible-server/exceptions.ts';
import { playDay } from '../support/fakes/plausible-server/story.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { isDeep } from '../support/harness/depth.ts';

describe('any server', () => {
  /** A server that doubles links cannot have the route for records, which promises that it does not (W74). */
  const SERVERS: readonly Behaviours[] = (isDeep ? singles() : eachOnce()).map((behaviours) =>
    behaviours['link POST'] === 'doubles' ? { ...behaviours, 'pull-request routes': '404' } : behaviours,
  );

  it.each(SERVERS.map((behaviours) => [Object.values(behaviours).join(', '), behaviours] as const))(
    'works with a server that differs in: %s',
    async (_name, behaviours) => {
      const { wrong, codes } = await playDay(behaviours, { isLossy: true });
      const exceptions = exceptionsOf(behaviours);
      const stopped = exceptions.flatMap(({ stops }) => stops);
      expect(wrong.filter(({ feature }) => !stopped.includes(feature))).toEqual([]);
      const expected = exceptions.flatMap((exception) => exception.codes);
      if (exceptions.length === 0) expect(codes).toEqual([]);
      else expect(codes.filter((code) => expected.includes(code))).not.toEqual([]);
    },
  );
});

describe('a workspace whose tasks have no keys', () => {
  /** A workspace whose tasks have no keys, and whose other fields are not as in the contract. */

  let world: World;
  afterEach(() => world.close());

  const PAGES = 'https://boards.example.com/acme';
  const PULL = 'https://github.com/acme/app/pull/1';

  function keyless(own: HttpClient): HttpClient {
    return {
      ...own,
      async request(request) {
        const answer = await own.request(request);
        const text = answer.body.toString();
        if (!text.includes('"taskId"')) return answer;
        const changed = JSON.parse(text, (name, value: unknown) => {
          if (name === 'key') return undefined;
          if (name === 'priority' || name === 'source') return null;
          if (name === 'updatedAt') return Date.parse(String(value));
          return name === 'labels' ? [{ id: 1, name: 'ui' }] : value;
        }) as object;
        return { ...answer, body: Buffer.from(JSON.stringify(changed)) };
      },
    };
  }

  const newBug = async (title: string) => (await world.bug(title)).taskId;
  const linksOf = async (taskId: string) => (await world.links(taskId)).map(({ url }) => url);

  it('links a branch that names an id, and shows title and id', async () => {
    world = await createWorld({ http: keyless, config: { workspace: { web: [PAGES] } } });
    const taskId = await newBug('Door sticks');
    await world.edit({ title: 'Oil the hinge', head: `mona/${taskId}-oil` }, 'branch');
    expect(await linksOf(taskId)).toEqual([PULL]);
    expect(await world.partition().status()).toMatchObject({ tasks: 1 });
    const name = `"Door sticks" (${taskId})`;
    const explained = describeExplained(await world.ask('explain', { target: PULL }));
    expect(explained).toContain(`${name}: linked`);
    expect(explained).toContain(`because task-id: "${taskId}-oil" in branch`);
    expect(explained).not.toContain('not by');
    expect(describeExplained(await world.ask('explain', { target: taskId }))).toContain(name);
    const items = describeItems(await world.ask('items', { name: 'acme/app#1' }));
    expect(items).toContain(`link of acme/app#1 to ${name}`);
    const page = await (await world.read(`/workspaces/test/item?name=${encodeURIComponent(PULL)}`)).text();
    expect(page).toContain(`&quot;Door sticks&quot; (${taskId})`);
  });
});
