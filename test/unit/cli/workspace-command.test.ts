import { expect, it, vi } from 'vitest';
import { print } from '../../../src/cli/setting.ts';
import { show } from '../../../src/cli/workspace-command.ts';
import { OWN_COMMAND } from '../../../src/platform/lib/own-command.ts';
import { html } from '../../../src/web/html.ts';

it('names commands as they are typed here in texts of worksync, and leaves texts of other people as they are', () => {
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  const title = 'BUG-1  "worksync status" crashes';
  show({ text: title, json: [] }, {});
  print('See "worksync status".');
  const lines = written.mock.calls.map(([line]) => line);
  written.mockRestore();
  expect(lines).toEqual([`${title}\n`, `See "${OWN_COMMAND} status".\n`]);
  expect(html`${title}`.text).toBe('BUG-1  &quot;worksync status&quot; crashes');
});
