import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../../src/platform/lib/clock.ts';
import {
  type AsyncFiles,
  asyncDiskFiles,
  createFileReads,
  diskFiles,
  type FileFault,
} from '../../../../src/platform/lib/regular-files.ts';
import { createWorkerHost, OverBudget } from '../../../../src/platform/lib/worker-host.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';

const LARGEST = 1_048_576;

describe('only a regular file of limited size is read:', () => {
  const makers: Readonly<Record<string, (path: string) => unknown>> = {
    'is a named pipe, not a regular file': (path) => execFileSync('mkfifo', [path]),
    'is a socket, not a regular file': (path) =>
      new Promise<void>((resolve) => {
        const server = createServer().listen(path, resolve);
        onTestFinished(() => void server.close());
      }),
    'is a device, not a regular file': (path) => symlinkSync('/dev/zero', path),
    'is a folder, not a regular file': (path) => mkdirSync(path),
    'is larger than 1 MiB': (path) => {
      writeFileSync(path, '');
      truncateSync(path, 1_073_741_824);
    },
  };

  it.each(Object.entries(makers))('what %s is refused', async (problem, make) => {
    const path = join(folderOfTest('files'), 'x');
    await make(path);
    expect(() => diskFiles.read(path, LARGEST)).toThrow(problem);
    await expect(asyncDiskFiles.read(path, LARGEST)).rejects.toThrow(problem);
  });

  it('a file that the kernel makes has no size, and is read to its end', async () => {
    const { bytes } = diskFiles.read('/proc/self/status', LARGEST);
    expect(bytes.toString()).toContain('Pid:');
    expect((await asyncDiskFiles.read('/proc/self/status', LARGEST)).bytes.toString()).toContain('Pid:');
    expect(() => diskFiles.read('/proc/self/status', 10)).toThrow('is larger than');
  });
});

describe('a file system that does not answer', () => {
  /** A disk that answers for `/fast`, and for others when the test says so. */
  function slowDisk() {
    const waiting = new Map<string, () => void>();
    const started: string[] = [];
    const content = {
      bytes: Buffer.from('text'),
      stats: { kind: 'file', size: 4, mode: 0, uid: 0, version: '' },
    } as const;
    const disk: AsyncFiles = {
      stat: async () => undefined,
      list: async () => [],
      async read(path) {
        started.push(path);
        if (!path.startsWith('/fast')) await new Promise<void>((resolve) => waiting.set(path, resolve));
        return content;
      },
    };
    const clock = createTravellingClock();
    const reads = createFileReads(clock, disk);
    const read = (...paths: string[]) =>
      reads.run((files) =>
        paths.map((path) => {
          try {
            return files.read(path, LARGEST).bytes.toString();
          } catch (error) {
            return (error as FileFault).about(path);
          }
        }),
      );
    return { read, clock, waiting, started, reads };
  }

  it('costs one read of each path and two in all, and other files are read meanwhile', async () => {
    const { read, clock, started } = slowDisk();
    const both = read('/a', '/fast/1', '/fast/2');
    await clock.advance(4_999);
    expect(started).toEqual(['/a', '/fast/1', '/fast/2']);
    await clock.advance(1);
    expect(await both).toEqual(['/a has not answered for 5 s', 'text', 'text']);
    expect(await read('/a', '/fast/1')).toEqual(['/a has not answered for 5 s', 'text']);
    const second = read('/b', '/fast/1');
    await clock.advance(5_000);
    expect(await second).toEqual([
      '/b has not answered for 5 s',
      '/fast/1 is not read, because /a and /b do not answer',
    ]);
    expect(await read('/c')).toEqual(['/c is not read, because /a and /b do not answer']);
    expect(started.filter((path) => !path.startsWith('/fast'))).toEqual(['/a', '/b']);
  });

  it('is read again when it answers', async () => {
    const { read, clock, waiting, started, reads } = slowDisk();
    const first = read('/a');
    await clock.advance(5_000);
    expect([await first, reads.isUnderWay()]).toEqual([['/a has not answered for 5 s'], true]);
    expect(reads.answeredLate()).toBe(0);
    waiting.get('/a')?.();
    await clock.advance(0);
    expect([reads.isUnderWay(), reads.answeredLate()]).toEqual([false, 1]);
    const again = read('/a');
    await clock.advance(0);
    waiting.get('/a')?.();
    expect([await again, started, reads.isUnderWay()]).toEqual([['text'], ['/a', '/a'], false]);
  });
});

/** Real threads: `support/fakes/hungry-thread.ts` takes what it is told to take. */
function openHost(idle?: number) {
  const program = new URL('../../../support/fakes/hungry-thread.ts', import.meta.url);
  const host = createWorkerHost({ program, clock: systemClock(), memory: 64, ...(idle && { idle }) });
  onTestFinished(() => host.close());
  return host;
}

const ample = { cpu: 60_000, wall: 60_000 };

test.each([
  ['time', { cpu: 200, wall: 60_000 }],
  ['time', { cpu: 60_000, wall: 200 }],
  ['memory', ample],
] as const)('what takes too much %s ends with its thread, and the next work is done', async (what, budget) => {
  const host = openHost();
  const [hungry, next] = [host.run(what, budget), host.run('next', ample)];
  const error = await hungry.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(OverBudget);
  expect((error as OverBudget).what).toBe(what);
  expect(await next).toBe('next');
});
