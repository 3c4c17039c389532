import { describe, expect, it } from 'vitest';
import {
  blankEntity,
  findEntity,
  forgetEntity,
  json,
  linksOfItem,
  linksOfTask,
  saveEntity,
} from '../../../src/store/entities.ts';
import { openTestStore } from '../../support/harness/intake.ts';

describe('entities', () => {
  it('saves, overwrites, finds and forgets a row', async () => {
    const { query } = await openTestStore();
    const row = blankEntity('link:i>t', 'link', { item_key: 'i', task_id: 't' });
    await saveEntity(query, { ...row, desired: '{"url":"u"}', remote_id: 'r' });
    await saveEntity(query, { ...row, known: '{}', known_at: 5, hand: 'manual' });
    expect(await findEntity(query, 'link:i>t')).toMatchObject({ ...row, known: '{}', known_at: 5, hand: 'manual' });
    await forgetEntity(query, 'link:i>t');
    expect(await findEntity(query, 'link:i>t')).toBeUndefined();
  });

  it('links are found by item and by task, and nothing else is', async () => {
    const { query } = await openTestStore();
    const save = (entity: string, kind: 'link' | 'pull_request', item: string, task: string | null) =>
      saveEntity(query, blankEntity(entity, kind, { item_key: item, task_id: task }));
    await save('link:a>1', 'link', 'a', '1');
    await save('link:a>2', 'link', 'a', '2');
    await save('link:b>1', 'link', 'b', '1');
    await save('pull_request:a', 'pull_request', 'a', null);
    expect((await linksOfItem(query, 'a')).map(({ entity }) => entity).sort()).toEqual(['link:a>1', 'link:a>2']);
    expect((await linksOfTask(query, '1')).map(({ entity }) => entity).sort()).toEqual(['link:a>1', 'link:b>1']);
  });

  it('parses a column as JSON, and null as undefined', () => {
    expect(json(null)).toBeUndefined();
    expect(json('{"url":"u"}')).toEqual({ url: 'u' });
    expect(json('null')).toBeNull();
  });
});
