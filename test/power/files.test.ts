import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import { complaintsOf, markAsCopy } from '../../src/platform/database/sqlite.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { readKeyFile } from '../../src/platform/lib/key-file.ts';
import { INSTALLATION_FILE, openInstallation } from '../../src/store/installation/installation.ts';
import { createChance } from '../bench/quota/references/chance.ts';
import { startNode } from '../support/harness/processes.ts';
import { diskAfter, lay, MANNERS, makeRecorder, readBefore, readRecord } from './disk.ts';

/** Disks that are drawn for each manner of each cut. */
const DRAWS = 3;
/** Cuts are spread evenly over longer runs. */
const MOST_CUTS = 60;
/** The flags of the container, under which Node forbids every sync. */
const CONFINED = (folder: string) => [
  '--permission',
  '--disable-warning=PERM0001',
  '--disable-warning=PERM0006',
  '--allow-addons',
  '--allow-worker',
  '--allow-fs-read=*',
  `--allow-fs-write=${folder}`,
];

const recorder = makeRecorder();
const scratch = mkdtempSync(join(tmpdir(), 'worksync-power-files-'));
let made = 0;

afterAll(() => {
  recorder?.remove();
  rmSync(scratch, { recursive: true });
});

interface Action {
  readonly name: string;
  readonly flags?: (folder: string) => readonly string[];
  prepare?(folder: string): Promise<void>;
  see(folder: string): string;
}

/** @returns what was found, after cuts on the way, and after the end of it */
async function play({ name, flags, prepare, see }: Action) {
  if (!recorder) throw new Error('there is no compiler');
  const folder = join(scratch, `${name}-${++made}`);
  mkdirSync(folder);
  await prepare?.(folder);
  const before = { ...readBefore(folder), folders: [folder] };
  const record = `${folder}.record`;
  const child = join(import.meta.dirname, 'files-child.ts');
  const env = recorder.environment({ folder, record, cut: 0 });
  const { code, stderr } = await startNode([...(flags?.(folder) ?? []), child, name, folder], { env }).ended;
  expect(stderr).toBe('');
  expect(code).toBe(0);
  const changes = readRecord(record);
  const place = `${folder}.disk`;
  const seen = { onTheWay: new Set<string>(), inTheEnd: new Set<string>() };
  const stride = Math.max(1, Math.floor(changes.length / MOST_CUTS));
  const cuts = changes.map((_, index) => index).filter((index) => index % stride === 0);
  for (const cut of [...cuts, changes.length]) {
    for (const manner of MANNERS) {
      for (let seed = 0; seed < DRAWS; seed++) {
        lay(diskAfter(before, changes.slice(0, cut), manner, createChance(seed).float), folder, place);
        seen[cut === changes.length ? 'inTheEnd' : 'onTheWay'].add(see(place));
      }
    }
  }
  return seen;
}

async function makeDatabase(folder: string, name: string): Promise<void> {
  const installation = await openInstallation(folder, { random: systemRandom() });
  await installation.store(name);
  await installation.close();
}

/** Whole, and of which workspace. */
function contentOf(file: string): string {
  const complaints = complaintsOf(file);
  if (complaints.length > 0) return complaints.join();
  const database = new BetterSqlite(file);
  const names = database.prepare('select name from workspaces').pluck().all();
  database.close();
  return names.join() || 'nothing';
}

const ACTIONS: readonly Action[] = [
  { name: 'make-key', see: seeKey },
  { name: 'make-key', flags: CONFINED, see: seeKey },
  {
    name: 'replace-api-key',
    async prepare(folder) {
      writeFileSync(join(folder, 'api-key'), 'a-secret\n');
    },
    see(folder) {
      const text = readFileSync(join(folder, 'api-key'), 'utf8');
      return { 'a-secret\n': 'old', 'another-secret\n': 'new' }[text] ?? text;
    },
  },
  {
    name: 'back-up',
    prepare: (folder) => makeDatabase(folder, 'previous'),
    see(folder) {
      const file = join(folder, 'copy.db');
      if (!existsSync(file)) return 'old';
      const content = contentOf(file);
      return content === 'previous' ? 'new' : content;
    },
  },
  {
    name: 'restore',
    async prepare(folder) {
      const other = join(folder, 'other');
      mkdirSync(other);
      await makeDatabase(other, 'backed-up');
      writeFileSync(join(folder, 'backup.db'), readFileSync(join(other, INSTALLATION_FILE)));
      markAsCopy(join(folder, 'backup.db'));
      rmSync(other, { recursive: true });
      await makeDatabase(folder, 'previous');
    },
    see(folder) {
      const file = join(folder, INSTALLATION_FILE);
      if (!existsSync(file)) return 'there is none';
      const content = contentOf(file);
      if (content === 'previous') return 'old';
      if (content !== 'backed-up') return content;
      return contentOf(`${file}.before-restore`) === 'previous' ? 'new' : 'new, and the previous one is lost';
    },
  },
];

function seeKey(folder: string): string {
  return readKeyFile(join(folder, 'key')) ? 'new' : 'old';
}

describe.runIf(recorder)('when the power goes', () => {
  for (const action of ACTIONS) {
    const where = action.flags ? " under Node's permission model" : '';
    it(`${action.name}${where} leaves the old or the new one, and in the end the new one`, async () => {
      const { onTheWay, inTheEnd } = await play(action);
      expect([...onTheWay].filter((each) => each !== 'old' && each !== 'new')).toEqual([]);
      expect(onTheWay).toContain('old');
      expect([...inTheEnd]).toEqual(['new']);
    });
  }
});
