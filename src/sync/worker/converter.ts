import type { Connector } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { LoadedConfig } from '../../platform/config/load.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../platform/http/http-client.ts';
import { isSuccess } from '../../platform/http/semantics.ts';
import { systemClock } from '../../platform/lib/clock.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import { createWorkerHost, OverBudget, type WorkBudget } from '../../platform/lib/worker-host.ts';
import { LARGE, yieldToEventLoop } from '../../platform/lib/yield.ts';
import type { StoredBody } from '../../store/deliveries/bodies.ts';
import type { RouteName } from '../../workspace-api/contract.ts';
import type { ReadLarge } from '../../workspace-api/large-answers.ts';
import {
  type ConfigTask,
  type ConfigTextTask,
  type PageElement,
  type ParsedContent,
  type PartsTask,
  performTask,
  type TaskResult,
  type TransferableConfig,
  type TransferableError,
  type TranslateTask,
  type WorkerTask,
  type WorkerTranslation,
} from './thread-tasks.ts';

/**
 * Parses bodies and configurations that are too large, or too likely to exceed a budget, for the main thread. Throws
 * the errors of the parsers, and `over_budget` if a task used too much time or memory.
 */
export interface Converter {
  translate(task: TranslateTask): Promise<WorkerTranslation>;
  /** Returns each element of a page as a page of its own; empty if the body is no page. */
  parts(task: PartsTask): Promise<readonly PageElement[]>;
  /**
   * Returns the fields of a JSON body that the shape names, with long texts set apart (`platform/lib/json-apart.ts`).
   * The caller must not use the bytes afterwards. Throws `answer_malformed`, `answer_too_large`, `over_budget`.
   */
  read(bytes: Buffer, keep: Shape | true): Promise<unknown>;
  /**
   * Parses an answer of the workspace (`workspace-api/large-answers.ts`). The caller must not use the bytes afterwards.
   * Throws `answer_malformed`, `over_budget`.
   */
  answer(route: RouteName, bytes: Buffer): Promise<unknown>;
  /** Runs `loadConfig`. @param bytes the size of all its files together */
  config(task: ConfigTask, bytes: number): Promise<LoadedConfig>;
  /** Runs `readConfigText`. */
  configText(task: ConfigTextTask): Promise<WorkspaceConfig>;
  close(): Promise<void>;
}

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

function converterOver({ perform, close }: TaskRunner): Converter {
  const run = async (task: WorkerTask, budget: WorkBudget): Promise<unknown> => {
    const result = await perform(task, budget);
    if ('error' in result) throw errorOf(result.error);
    return result.value;
  };
  const parse = async (task: WorkerTask & { readonly bytes: Uint8Array }): Promise<unknown> =>
    ((await run(task, budgetFor(task.bytes.length))) as ParsedContent).content;
  const budgetOf = ({ body, unpacked_length }: StoredBody) => budgetFor(unpacked_length ?? body.length);
  return {
    translate: async (task) => (await run({ task: 'translate', ...task }, budgetOf(task.body))) as WorkerTranslation,
    parts: async (task) => (await run({ task: 'parts', ...task }, budgetOf(task.body))) as readonly PageElement[],
    read: (bytes, keep) => parse({ task: 'read', bytes, keep }),
    answer: (route, bytes) => parse({ task: 'answer', route, bytes }),
    async config(task, bytes) {
      const result = (await run({ task: 'config', ...task }, budgetFor(bytes))) as TransferableConfig;
      const { broken, ...config } = result;
      return { ...config, broken: broken.map(({ error, ...each }) => ({ ...each, error: errorOf(error) })) };
    },
    configText: async (task) =>
      (await run({ task: 'configText', ...task }, budgetFor(task.text.length))) as WorkspaceConfig,
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
