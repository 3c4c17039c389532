import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { CHANGE_STATES, LANES } from '../../model/change.ts';
import { FINDINGS } from '../../model/foreign-edits.ts';
import { NO_MOVES } from '../../model/workflow.ts';
import { yieldToEventLoop } from '../lib/concurrency.ts';
import type { Labels, Meter } from '../lib/telemetry.ts';

const PREFIX = 'worksync_';

/** Names, each with every possible value; null if the values depend on the configuration or on others. */
type DeclaredLabels = Readonly<Record<string, readonly string[] | null>>;

interface Declaration {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels?: DeclaredLabels | undefined;
  /** Measured per workspace: the label `workspace` is added by `forWorkspace`. */
  readonly perWorkspace?: boolean;
  /** A gauge that each scrape sets from the status: without a value in the status there is no sample. */
  readonly isFresh?: boolean;
  /** Upper bounds of a histogram's buckets, in the unit of its name. */
  readonly buckets?: readonly number[];
}

const declare =
  (base: Omit<Declaration, 'help'>) =>
  (help: string, labels?: DeclaredLabels): Declaration => ({ ...base, help, labels });
const gauge = declare({ kind: 'gauge' });
const fresh = declare({ kind: 'gauge', isFresh: true });
const counter = declare({ kind: 'counter' });
const workspaceGauge = declare({ kind: 'gauge', perWorkspace: true });
const workspaceFresh = declare({ kind: 'gauge', perWorkspace: true, isFresh: true });
const workspaceCounter = declare({ kind: 'counter', perWorkspace: true });
const histogram = (help: string, buckets: readonly number[], labels?: DeclaredLabels) =>
  declare({ kind: 'histogram', buckets })(help, labels);
const workspaceHistogram = (help: string, buckets: readonly number[], labels?: DeclaredLabels) =>
  declare({ kind: 'histogram', buckets, perWorkspace: true })(help, labels);

const OUTCOMES = ['new', 'repeated', 'revived', 'refused', 'failed', 'applied', 'superseded', 'ignored', 'quarantined'];
const WINDOWS = ['long', 'burst'];

/**
 * Every metric there is, without its prefix. Base units. Labels take few values: no item, task or delivery ids. The help text
 * lists the values given here, and no others are accepted.
 */
export const METRICS: Readonly<Record<string, Declaration>> = {
  up: gauge('1 while webhooks are stored and no workspace is blocked, else 0.'),
  workspace_up: workspaceFresh(
    '1 while nothing blocks the workspace: what comes in is stored, what is due is sent; else 0.',
  ),
  problems: workspaceFresh(
    'Current problems by the code that "worksync status" shows; an error code where it blocks the workspace.',
    { code: null },
  ),
  leases: fresh('Workspaces that this replica works on; absent where no other process shares them.'),
  replicas: fresh('Replicas that live, as this one sees them; absent where there is no other.'),
  lease_takeovers_total: counter(
    'Workspaces that this replica took over from one that fell silent, also from itself; not those that were given back.',
  ),
  lease_renewal_age_seconds: fresh('Since this replica last renewed its leases: they lapse after 3 seconds.'),
  build_info: gauge('Always 1; the labels tell the versions.', { version: null, node: null }),

  deliveries_total: workspaceCounter('Deliveries by outcome.', { connection: null, outcome: OUTCOMES }),
  workspace_events_unknown_total: workspaceCounter(
    'Webhooks of the workspace of a type that worksync does not know, and so ignored. At most 50 types; others count as other.',
    { type: null },
  ),
  polls_total: workspaceCounter('Polled units by outcome.', {
    connection: null,
    outcome: ['complete', 'unchanged', 'limited', 'off', 'failed'],
  }),
  backfill_pages_total: workspaceCounter('Pages of backfills by outcome.', {
    connection: null,
    outcome: ['read', 'limited', 'failed'],
  }),
  sweeps_total: workspaceCounter('Swept units by outcome.', { connection: null, outcome: ['complete', 'failed'] }),
  provider_up: workspaceFresh('0 after a poll or a fetch failed that no success has followed, else 1.', {
    connection: null,
  }),
  // Prometheus reserves the label `job`.
  last_success_timestamp_seconds: workspaceFresh(
    'When a poll or sweep last reached its end; absent until one has. The sweep of the workspace is of no connection.',
    { activity: ['poll', 'sweep', 'workspace_sweep'], connection: null },
  ),
  missing_units: workspaceFresh(
    'Repositories and projects that the provider no longer has, or no longer shows to the credential.',
    { connection: null },
  ),
  scope_rebound: workspaceGauge(
    'Names in the configuration that lead to another repository, project or team than before.',
    { connection: null },
  ),
  hook_disabled: workspaceGauge('Webhooks at the vendor that are switched off or absent.', { connection: null }),
  redeliveries_asked_total: workspaceCounter('Failed deliveries that the vendor was asked to send again.', {
    connection: null,
  }),
  inbox_pending: workspaceFresh('Deliveries that wait for reconcile.'),
  quarantined_deliveries: workspaceFresh('Deliveries that could not be read or applied.'),

  outbox_depth: workspaceFresh('Changes in the outbox by state.', { state: CHANGE_STATES }),
  held_changes: workspaceFresh('Changes that need approval.'),
  oldest_pending_seconds: workspaceFresh('Age of the oldest unsent change, without first imports.', { lane: LANES }),
  sync_lag_seconds: workspaceHistogram(
    "Time from a delivery's 2xx to the answer of its write; first imports and backfills do not count.",
    [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600],
  ),
  task_moves_total: workspaceCounter('Status changes of tasks that the rules decided, by rule.', { rule: null }),
  task_stays_total: workspaceCounter('Evaluations that wanted another status of a task and left it, by reason.', {
    reason: NO_MOVES.filter((reason) => reason !== 'same'),
  }),
  unfinished_tasks: workspaceFresh('Tasks whose work was merged and that are not finished, by reason.', {
    reason: null,
  }),

  workspace_sweep_age_seconds: workspaceFresh(
    'Time since the last sweep of the workspace ended; absent until one has.',
  ),
  workspace_sweep_found: workspaceFresh('Differences that the last sweep of the workspace found.', { what: FINDINGS }),
  workspace_sweep_repairs_waiting: workspaceFresh(
    'Records that the last sweep of the workspace found changed and that are not repaired yet.',
  ),
  workspace_requests_total: workspaceCounter('Requests to the workspace by route and status.', {
    route: null,
    status: null,
  }),
  quota_requests_total: workspaceCounter('Quota slots taken.', { lane: LANES }),
  quota_refusals_total: workspaceCounter('Requests refused with 429.', { lane: LANES }),
  quota_wait_seconds: workspaceHistogram(
    'How long a request waited for its slot.',
    [0.01, 0.1, 1, 5, 30, 60, 300, 900],
    { lane: LANES },
  ),
  quota_limit: workspaceFresh('Requests that the window allows.', { window: WINDOWS }),
  quota_used: workspaceFresh('Requests that count in the window now.', { window: WINDOWS }),
  quota_remaining: workspaceFresh('Requests that are left in the window now.', { window: WINDOWS }),
  quota_share: workspaceFresh('Our share of the workspace quota, 0 to 1.'),
  quota_paused_seconds: workspaceFresh('How long the quota still stops all requests; 0 when running.'),

  gateway_requests_total: counter('Requests at the gateway; refused is 429 from us.', {
    outcome: ['cached', 'passed', 'refused', 'failed'],
  }),

  spans_dropped_total: counter('Spans of traces that were not exported, by reason.', {
    reason: ['queue_full', 'not_exported', 'refused'],
  }),
  http_requests_total: counter('Outgoing HTTP requests by status, or by error code where no answer came.', {
    target: null,
    status: null,
  }),
  http_request_seconds: histogram(
    'Time of an outgoing HTTP request.',
    [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30],
    { target: null },
  ),

  config_fault: gauge('1 while the configuration cannot be reloaded and the last good one stays in use; else 0.'),
  database_bytes: gauge('Size of the database.'),
  database_log_kept_bytes: gauge(
    'Size of the write-ahead log while another program keeps it from being emptied, else 0.',
  ),
  disk_full: gauge('1 while the data volume is full, else 0.'),
};

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * A registry of its own with the metrics of the table and those of the process.
 *
 * @param onMisuse called with a name or label that the table does not have. That is an error of the caller: without this callback it
 * is thrown, as tests need; the daemon logs it instead, because a figure is not worth a failed request.
 */
export function createMetrics({
  version,
  onMisuse = rethrow,
}: {
  readonly version: string;
  readonly onMisuse?: (error: Error) => void;
}) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: PREFIX });
  const made = createAll(registry);
  /** The meter of the process, or of the stages of one workspace, which adds the workspace's name to metrics per workspace. */
  const metersOf = (workspace?: string) => createMeter(made, workspace, onMisuse);
  const meter = metersOf();
  meter.gauge('build_info', 1, { version, node: process.versions.node });
  return {
    meter,
    forWorkspace: (workspace: string): Meter => metersOf(workspace),
    /** Drops the samples that each scrape sets again. */
    freshen() {
      for (const gauge of made.fresh) gauge.reset();
    },
    /** Returns the text for Prometheus. @param workspaces names of those whose samples it has; null: all */
    async expose(workspaces: readonly string[] | null = null): Promise<string> {
      const texts: string[] = [];
      // All samples of thousands of workspaces at once would block the event loop.
      for (const { name } of registry.getMetricsAsArray()) {
        texts.push(samplesOf(await registry.getSingleMetricAsString(name), workspaces));
        await yieldToEventLoop();
      }
      for (const gauge of made.fresh) {
        texts.push(samplesOf(gauge.text(), workspaces));
        await yieldToEventLoop();
      }
      return `${texts.join('\n\n')}\n`;
    },
    contentType: registry.contentType,
  };
}

function samplesOf(text: string, workspaces: readonly string[] | null): string {
  if (workspaces === null) return text;
  // Quotation marks inside a label's value are escaped, so that no value can look like a label.
  const labels = workspaces.map((name) => `workspace="${name}"`);
  return text
    .split('\n')
    .filter((line) => line === '' || line.startsWith('#') || labels.some((label) => isLabelled(line, label)))
    .join('\n');
}

function isLabelled(line: string, label: string): boolean {
  return line.includes(`{${label}`) || line.includes(`,${label}`);
}

function createMeter(
  made: ReturnType<typeof createAll>,
  workspace: string | undefined,
  onMisuse: (error: Error) => void,
): Meter {
  const report = <Metric>(
    metrics: ReadonlyMap<string, Metric>,
    name: string,
    given: Labels,
    call: (metric: Metric, labels: Labels) => void,
  ) => {
    const labels = METRICS[name]?.perWorkspace && workspace !== undefined ? { workspace, ...given } : given;
    const metric = metrics.get(name);
    if (metric !== undefined && isDeclared(name, labels)) return call(metric, labels);
    onMisuse(new Error(`no metric ${name} of this kind with labels ${JSON.stringify(labels)} is declared`));
  };
  return {
    count: (name, labels = {}, by = 1) => report(made.counters, name, labels, (metric, all) => metric.inc(all, by)),
    gauge: (name, value, labels = {}) => report(made.gauges, name, labels, (metric, all) => metric.set(all, value)),
    observe: (name, value, labels = {}) =>
      report(made.histograms, name, labels, (metric, all) => metric.observe(all, value)),
  };
}

function rethrow(error: Error): never {
  throw error;
}

/** Creates all metrics of the table, by name; `fresh` are the gauges that each scrape sets again. */
function createAll(registry: Registry) {
  const counters = new Map<string, Counter>();
  const gauges = new Map<string, Gauge | FreshGauge>();
  const histograms = new Map<string, Histogram>();
  const fresh: FreshGauge[] = [];
  for (const [name, declaration] of Object.entries(METRICS)) {
    const common = {
      name: PREFIX + name,
      help: helpOf(declaration),
      labelNames: labelsOf(declaration),
      registers: [registry],
    };
    if (declaration.isFresh) {
      const gauge = new FreshGauge(common.name, common.help, common.labelNames);
      fresh.push(gauge);
      gauges.set(name, gauge);
    } else if (declaration.kind === 'gauge') gauges.set(name, new Gauge(common));
    else if (declaration.kind === 'counter') counters.set(name, new Counter(common));
    else histograms.set(name, new Histogram({ ...common, buckets: [...(declaration.buckets ?? [])] }));
  }
  return { counters, gauges, histograms, fresh };
}

/** The help text lists the values of labels. */
function helpOf({ help, labels = {} }: Declaration): string {
  const listed = Object.entries(labels).flatMap(([name, values]) =>
    values ? [` ${name}: ${values.join(', ')}.`] : [],
  );
  return help + listed.join('');
}

function labelsOf(declaration: Declaration | undefined): string[] {
  return [...(declaration?.perWorkspace ? ['workspace'] : []), ...Object.keys(declaration?.labels ?? {})];
}

/** The labels of each metric, cached because every sample needs them. */
const LABELS: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(METRICS).map(([name, declaration]) => [name, labelsOf(declaration)]),
);

/** Whether the labels are exactly the declared names, each with a declared value. */
function isDeclared(metric: string, given: Labels): boolean {
  const wanted = LABELS.get(metric) ?? [];
  if (wanted.length !== Object.keys(given).length) return false;
  const declared = METRICS[metric]?.labels;
  return wanted.every((name) => {
    const value = given[name];
    return value !== undefined && (declared?.[name]?.includes(value) ?? true);
  });
}

/**
 * A gauge whose samples each scrape sets again. It keeps them as the text that is served, because objects of the library would cost
 * several times as much for thousands of workspaces, mostly for garbage collection.
 */
export class FreshGauge {
  readonly #name: string;
  readonly #help: string;
  readonly #labels: readonly string[];
  /** Values by the text of their labels. */
  readonly #samples = new Map<string, number>();

  /** @param labels names, in the order of the text */
  constructor(name: string, help: string, labels: readonly string[]) {
    this.#name = name;
    this.#help = help;
    this.#labels = labels;
  }

  set(labels: Labels, value: number): void {
    const pairs = this.#labels.map((label) => `${label}="${escaped(labels[label] ?? '')}"`);
    this.#samples.set(pairs.length === 0 ? '' : `{${pairs.join()}}`, value);
  }

  reset(): void {
    this.#samples.clear();
  }

  /** Returns the text format of Prometheus (its documentation, "Exposition formats"), without the line break at its end. */
  text(): string {
    const lines = [`# HELP ${this.#name} ${this.#help}`, `# TYPE ${this.#name} gauge`];
    for (const [labels, value] of this.#samples) lines.push(`${this.#name}${labels} ${numberOf(value)}`);
    return lines.join('\n');
  }
}

const SPECIAL = /[\\"\n]/g;

function escaped(value: string): string {
  return value.replace(SPECIAL, (character) => (character === '\n' ? '\\n' : `\\${character}`));
}

function numberOf(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value);
}
