import type { Connector } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors.ts';
import type { LoadedConfig } from '../../platform/config/load.ts';
import { type HttpAnswer, type HttpClient, type HttpRequest, isSuccess } from '../../platform/http/http-client.ts';
import { systemClock } from '../../platform/lib/clock.ts';
import { LARGE, yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import { createWorkerHost, OverBudget, type WorkBudget } from '../../platform/lib/worker-host.ts';
import type { StoredBody } from '../../store/deliveries/inbox.ts';
import type { RouteName } from '../../workspace-api/contract.ts';
import type { ReadLarge } from '../../workspace-api/typed-client.ts';
import {
  performTask,
  type TaskInput,
  type TaskResult,
  type TaskResults,
  type TransferableError,
  type WorkerTask,
} from './thread-tasks.ts';

/**
 * Parses bodies and configurations that are too large, or too likely to exceed a budget, for the main thread. Throws
 * the errors of the parsers, and `over_budget` if a task used too much time or memory.
 */
export type Converter = ReturnType<typeof converterOver>;

/** The heap of the thread, MiB. Parsing a body of 25 MB takes about ten times its size. */
const MEMORY = 384;

/** Returns about a hundred times the time that a normal body takes: a fixed part, and a part for each mebibyte. */
function budgetFor(length: number): WorkBudget {
  const cpu = 3_000 + (length * 1_000) / MEBIBYTE;
  // On a busy machine, the elapsed time is many times the CPU time.
  return { cpu, wall: 20 * cpu };
}

/**
 * Runs the tasks in a worker thread, which starts when there is work and ends soon after it. Budgets are in real time,
 * as CPU time is. The thread knows the connectors of the registry.
 */
export function createConverter(): Converter {
  const program = new URL('./worker.ts', import.meta.url);
  const host = createWorkerHost({ program, clock: systemClock(), memory: MEMORY });
  return converterOver({
    async perform(task, budget) {
      try {
        return (await host.run(task, budget, transferablesOf(task))) as TaskResult;
      } catch (error) {
        if (error instanceof OverBudget) throw new SyncError('over_budget', error.message, { cause: error });
        throw error;
      }
    },
    close: () => host.close(),
  });
}

/** Returns the memory to transfer. Bytes that share their memory with others are copied instead. */
function transferablesOf(task: WorkerTask): readonly ArrayBuffer[] {
  if (!('bytes' in task)) return [];
  const { buffer, byteLength } = task.bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}

/** Runs the tasks at once and without a budget: for virtual time, and for connectors that are in no registry. */
export function createInlineConverter(connectors: readonly Connector<unknown>[]): Converter {
  return converterOver({ perform: async (task) => performTask(task, connectors), close: async () => undefined });
}

interface TaskRunner {
  perform(task: WorkerTask, budget: WorkBudget): Promise<TaskResult>;
  close(): Promise<void>;
}

function converterOver({ perform, close }: TaskRunner) {
  async function run<Kind extends WorkerTask['task']>(task: Kind, input: TaskInput<Kind>, bytes: number) {
    const result = await perform({ task, ...input } as unknown as WorkerTask, budgetFor(bytes));
    if ('error' in result) throw errorOf(result.error);
    return result.value as TaskResults[Kind];
  }
  const sizeOf = ({ body, unpacked_length }: StoredBody) => unpacked_length ?? body.length;
  return {
    translate: (task: TaskInput<'translate'>) => run('translate', task, sizeOf(task.body)),
    /** Returns each element of a page as a page of its own; empty if the body is no page. */
    parts: (task: TaskInput<'parts'>) => run('parts', task, sizeOf(task.body)),
    /**
     * Returns the fields of a JSON body that the shape names, with long texts set apart (`platform/lib/shape.ts`).
     * The caller must not use the bytes afterwards. Throws `answer_malformed`, `answer_too_large`, `over_budget`.
     */
    read: async (bytes: Buffer, keep: Shape | true) => (await run('read', { bytes, keep }, bytes.length)).content,
    /**
     * Parses an answer of the workspace (`workspace-api/typed-client.ts`). The caller must not use the bytes afterwards.
     * Throws `answer_malformed`, `over_budget`.
     */
    answer: async (route: RouteName, bytes: Buffer) => (await run('answer', { route, bytes }, bytes.length)).content,
    /** Runs `loadConfig`. @param bytes the size of all its files together */
    async config(task: TaskInput<'config'>, bytes: number): Promise<LoadedConfig> {
      const { broken, ...config } = await run('config', task, bytes);
      return { ...config, broken: broken.map(({ error, ...each }) => ({ ...each, error: errorOf(error) })) };
    },
    /** Runs `readConfigText`. */
    configText: (task: TaskInput<'configText'>) => run('configText', task, task.text.length),
    close,
  };
}

function errorOf({ code, message, hint }: TransferableError): SyncError {
  return new SyncError(code, message, { hint });
}

/**
 * Wraps an HTTP client so that the converter parses large successful answers to requests with `keep`. These answers
 * have `content` instead of the body.
 *
 * @param from the size above which an answer is large, bytes
 */
export function parseInWorker(http: HttpClient, converter: Converter, from = LARGE): HttpClient {
  return {
    async request(request) {
      const answer = await http.request(request);
      const isParsed = request.keep !== undefined && isSuccess(answer.status);
      return isParsed && answer.body.length > from ? parseAnswer(request, answer, converter) : answer;
    },
    close: () => http.close(),
  };
}

async function parseAnswer(request: HttpRequest, answer: HttpAnswer, converter: Converter): Promise<HttpAnswer> {
  const { status, headers, body } = answer;
  try {
    const content = await converter.read(body, request.keep ?? true);
    // The transfer took a while, and so does the next step.
    await yieldToEventLoop();
    return { status, headers, body: Buffer.alloc(0), content };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const message = `${request.method} ${new URL(request.url).pathname}: ${error.message}`;
    throw new SyncError(error.code, message, { cause: error, status });
  }
}

/** Returns a function that parses large answers of the workspace with the converter. */
export function readLargeBy(converter: Converter): ReadLarge {
  return async (route, body) => {
    const content = await converter.answer(route, body);
    // The transfer took a while, and so does the next step.
    await yieldToEventLoop();
    return content;
  };
}
