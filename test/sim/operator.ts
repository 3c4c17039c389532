import { SyncError } from '../../src/errors/sync-error.ts';
import { DatabaseFault } from '../../src/lib/database/database-fault.ts';
import { answerQuestion } from '../../src/operator/questions.ts';
import { ProcessEnded } from './life.ts';
import type { Forge } from './plan.ts';
import type { Site } from './site.ts';

/** Somebody who gives commands to whichever process works on the workspace, and hears an error where that ends meanwhile. */
export interface Operator {
  backfill(connection: Forge): Promise<void>;
  pause(connection: Forge): Promise<void>;
  resume(connection: Forge): Promise<void>;
  /** Of the workspace. */
  sweep(): Promise<void>;
  /** Has the daemon ask the workspace something, as commands do. */
  askWorkspace(): Promise<void>;
}

export function createOperator({ atWork, providers }: Site): Operator {
  /** @returns whether it was taken */
  async function ask(...[name, asked]: readonly [Parameters<typeof answerQuestion>[0], object]): Promise<boolean> {
    const process = atWork();
    if (!process) return false;
    try {
      await answerQuestion(name, process.partition, asked, process.clock);
      return true;
    } catch (error) {
      const isTold = [ProcessEnded, SyncError, DatabaseFault].some((kind) => error instanceof kind);
      if (isTold) return false;
      throw error;
    }
  }

  return {
    async backfill(connection) {
      if (await ask('backfill', { connection, since: null })) providers.past.asked(connection);
    },
    pause: async (connection) => void (await ask('backfill-pause', { connection })),
    resume: async (connection) => void (await ask('backfill-resume', { connection })),
    sweep: async () => void (await ask('sweep', {})),
    async askWorkspace() {
      await atWork()?.partition.client.listTasks({ query: { limit: 1 } }, { lane: 'interactive' });
    },
  };
}
