import type { Connector } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { LoadedConfig } from '../../platform/config/load.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import { systemClock } from '../../platform/lib/clock.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import { createWorkerHost, OverBudget, type WorkBudget } from '../../platform/lib/worker-host.ts';
import type { StoredBody } from '../../store/bodies.ts';
import type { RouteName } from '../../workspace-api/contract.ts';
import {
  type ConfigTask,
  type ConfigTextTask,
  type Content,
  type Done,
  type Part,
  type PartsTask,
  type PlainConfig,
  type PlainError,
  perform,
  type Task,
  type Translated,
  type TranslateTask,
} from './thread-tasks.ts';

/**
 * Reads bodies and configurations that are too large or too suspect for the main thread. Throws what the reading throws, and `over_budget` if it
 * took too much time or memory.
 */
export interface Converter {
  translate(task: TranslateTask): Promise<Translated>;
  /** Each element of a page as a page of its own; empty where it is none. */
  parts(task: PartsTask): Promise<readonly Part[]>;
  /**
   * What the shape names of a JSON body, with what is long set apart (`platform/lib/json-apart.ts`). The caller must not use the bytes
   * afterwards. Throws `answer_malformed`, `answer_too_large`, `over_budget`.
   */
  read(bytes: Buffer, keep: Shape | true): Promise<unknown>;
  /**
   * An answer of the workspace (`workspace-api/large-answers.ts`). The caller must not use the bytes afterwards. Throws
   * `answer_malformed`, `over_budget`.
   */
  answer(route: RouteName, bytes: Buffer): Promise<unknown>;
  /** `loadConfig`. @param bytes how large all its files are together */
  config(task: ConfigTask, bytes: number): Promise<LoadedConfig>;
  /** `readConfigText`. */
  configText(task: ConfigTextTask): Promise<WorkspaceConfig>;
  close(): Promise<void>;
}

/** Heap of the thread, MiB: a body of 25 MB takes about ten times that while it is read. */
const MEMORY = 384;

/** Some hundred times what an honest body takes, and that again for each of its mebibytes. */
function budgetFor(length: number): WorkBudget {
  const cpu = 3_000 + (length * 1_000) / MEBIBYTE;
  // A busy machine takes many times longer than the work itself.
  return { cpu, wall: 20 * cpu };
}

/**
 * In a thread of its own, which is started when there is work and ends soon after it. Its time is real time, as CPU is. It knows
 * the connectors of the registry.
 */
export function createConverter(): Converter {
  const program = new URL('./worker.ts', import.meta.url);
  const host = createWorkerHost({ program, clock: systemClock(), memory: MEMORY });
  return converterOver({
    async perform(task, budget) {
      try {
        return (await host.run(task, budget, transferOf(task))) as Done;
      } catch (error) {
        if (error instanceof OverBudget) throw new SyncError('over_budget', error.message, { cause: error });
        throw error;
      }
    },
    close: () => host.close(),
  });
}

/** An answer that was just received is nobody else's; one that shares its memory with others is copied. */
function transferOf(task: Task): readonly ArrayBuffer[] {
  if (!('bytes' in task)) return [];
  const { buffer, byteLength } = task.bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}

/** At once and without a budget: where time travels, or connectors are in no registry. */
export function createInlineConverter(connectors: readonly Connector<unknown>[]): Converter {
  return converterOver({ perform: async (task) => perform(task, connectors), close: async () => undefined });
}

function errorOf({ code, message, hint }: PlainError): SyncError {
  return new SyncError(code, message, { hint });
}

interface Performer {
  perform(task: Task, budget: WorkBudget): Promise<Done>;
  close(): Promise<void>;
}

function converterOver({ perform: run, close }: Performer): Converter {
  const ask = async (task: Task, budget: WorkBudget): Promise<unknown> => {
    const done = await run(task, budget);
    if ('error' in done) throw errorOf(done.error);
    return done.value;
  };
  const contentOf = async (task: Task & { readonly bytes: Uint8Array }): Promise<unknown> =>
    ((await ask(task, budgetFor(task.bytes.length))) as Content).content;
  const budgetOf = ({ body, unpacked_length }: StoredBody) => budgetFor(unpacked_length ?? body.length);
  return {
    translate: async (task) => (await ask({ task: 'translate', ...task }, budgetOf(task.body))) as Translated,
    parts: async (task) => (await ask({ task: 'parts', ...task }, budgetOf(task.body))) as readonly Part[],
    read: (bytes, keep) => contentOf({ task: 'read', bytes, keep }),
    answer: (route, bytes) => contentOf({ task: 'answer', route, bytes }),
    async config(task, bytes) {
      const { broken, ...config } = (await ask({ task: 'config', ...task }, budgetFor(bytes))) as PlainConfig;
      return { ...config, broken: broken.map(({ error, ...each }) => ({ ...each, error: errorOf(error) })) };
    },
    configText: async (task) =>
      (await ask({ task: 'configText', ...task }, budgetFor(task.text.length))) as WorkspaceConfig,
    close,
  };
}
