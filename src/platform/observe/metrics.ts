import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { CHANGE_STATES } from '../../model/change.ts';
import { FINDINGS } from '../../model/foreign-edits.ts';
import { LANES } from '../../model/lane.ts';
import { NO_MOVES } from '../../model/workflow.ts';
import type { Labels, Meter } from '../lib/meter.ts';
import { yieldToEventLoop } from '../lib/yield.ts';
import { FreshGauge } from './fresh-gauge.ts';

const PREFIX = 'worksync_';

interface Declaration {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** Names, each with every possible value; null if the values depend on the configuration or on others. */
  readonly labels?: Readonly<Record<string, readonly string[] | null>>;
  /** Measured per workspace: the label `workspace` is added by `forWorkspace`. */
  readonly perWorkspace?: boolean;
  /** A gauge that each scrape sets from the status: without a value in the status there is no sample. */
  readonly isFresh?: boolean;
  /** Upper bounds of a histogram's buckets, in the unit of its name. */
  readonly buckets?: readonly number[];
}

const OUTCOMES = ['new', 'repeated', 'revived', 'refused', 'failed', 'applied', 'superseded', 'ignored', 'quarantined'];
const WINDOWS = ['long', 'burst'];

/**
 * Every metric there is, without its prefix. Base units. Labels take few values: no item, task or delivery ids. The help text
 * lists the values given here, and no others are accepted.
 */
export const METRICS: Readonly<Record<string, Declaration>> = {
  up: { kind: 'gauge', help: '1 while webhooks are stored and no workspace is blocked, else 0.' },
  workspace_up: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: '1 while nothing blocks the workspace: what comes in is stored, what is due is sent; else 0.',
  },
  problems: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Current problems by the code that "worksync status" shows; an error code where it blocks the workspace.',
    labels: { code: null },
  },
  leases: {
    kind: 'gauge',
    isFresh: true,
    help: 'Workspaces that this replica works on; absent where no other process shares them.',
  },
  replicas: {
    kind: 'gauge',
    isFresh: true,
    help: 'Replicas that live, as this one sees them; absent where there is no other.',
  },
  lease_takeovers_total: {
    kind: 'counter',
    help: 'Workspaces that this replica took over from one that fell silent, also from itself; not those that were given back.',
  },
  lease_renewal_age_seconds: {
    kind: 'gauge',
    isFresh: true,
    help: 'Since this replica last renewed its leases: they lapse after 3 seconds.',
  },
  build_info: { kind: 'gauge', help: 'Always 1; the labels tell the versions.', labels: { version: null, node: null } },

  deliveries_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Deliveries by outcome.',
    labels: { connection: null, outcome: OUTCOMES },
  },
  workspace_events_unknown_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Webhooks of the workspace of a type that worksync does not know, and so ignored. At most 50 types; others count as other.',
    labels: { type: null },
  },
  polls_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Polled units by outcome.',
    labels: { connection: null, outcome: ['complete', 'unchanged', 'limited', 'off', 'failed'] },
  },
  backfill_pages_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Pages of backfills by outcome.',
    labels: { connection: null, outcome: ['read', 'limited', 'failed'] },
  },
  sweeps_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Swept units by outcome.',
    labels: { connection: null, outcome: ['complete', 'failed'] },
  },
  provider_up: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: '0 after a poll or a fetch failed that no success has followed, else 1.',
    labels: { connection: null },
  },
  last_success_timestamp_seconds: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'When a poll or sweep last reached its end; absent until one has. The sweep of the workspace is of no connection.',
    // Prometheus reserves the label `job`.
    labels: { activity: ['poll', 'sweep', 'workspace_sweep'], connection: null },
  },
  missing_units: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Repositories and projects that the provider no longer has, or no longer shows to the credential.',
    labels: { connection: null },
  },
  scope_rebound: {
    kind: 'gauge',
    perWorkspace: true,
    help: 'Names in the configuration that lead to another repository, project or team than before.',
    labels: { connection: null },
  },
  hook_disabled: {
    kind: 'gauge',
    perWorkspace: true,
    help: 'Webhooks at the vendor that are switched off or absent.',
    labels: { connection: null },
  },
  redeliveries_asked_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Failed deliveries that the vendor was asked to send again.',
    labels: { connection: null },
  },
  inbox_pending: { kind: 'gauge', perWorkspace: true, isFresh: true, help: 'Deliveries that wait for reconcile.' },
  quarantined_deliveries: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Deliveries that could not be read or applied.',
  },

  outbox_depth: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Changes in the outbox by state.',
    labels: { state: CHANGE_STATES },
  },
  held_changes: { kind: 'gauge', perWorkspace: true, isFresh: true, help: 'Changes that need approval.' },
  oldest_pending_seconds: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Age of the oldest unsent change, without first imports.',
    labels: { lane: LANES },
  },
  sync_lag_seconds: {
    kind: 'histogram',
    perWorkspace: true,
    help: "Time from a delivery's 2xx to the answer of its write; first imports and backfills do not count.",
    buckets: [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600],
  },
  task_moves_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Status changes of tasks that the rules decided, by rule.',
    labels: { rule: null },
  },
  task_stays_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Evaluations that wanted another status of a task and left it, by reason.',
    labels: { reason: NO_MOVES.filter((reason) => reason !== 'same') },
  },
  unfinished_tasks: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Tasks whose work was merged and that are not finished, by reason.',
    labels: { reason: null },
  },

  workspace_sweep_age_seconds: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Time since the last sweep of the workspace ended; absent until one has.',
  },
  workspace_sweep_found: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Differences that the last sweep of the workspace found.',
    labels: { what: FINDINGS },
  },
  workspace_sweep_repairs_waiting: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Records that the last sweep of the workspace found changed and that are not repaired yet.',
  },
  workspace_requests_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Requests to the workspace by route and status.',
    labels: { route: null, status: null },
  },
  quota_requests_total: { kind: 'counter', perWorkspace: true, help: 'Quota slots taken.', labels: { lane: LANES } },
  quota_refusals_total: {
    kind: 'counter',
    perWorkspace: true,
    help: 'Requests refused with 429.',
    labels: { lane: LANES },
  },
  quota_wait_seconds: {
    kind: 'histogram',
    perWorkspace: true,
    help: 'How long a request waited for its slot.',
    labels: { lane: LANES },
    buckets: [0.01, 0.1, 1, 5, 30, 60, 300, 900],
  },
  quota_limit: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Requests that the window allows.',
    labels: { window: WINDOWS },
  },
  quota_used: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Requests that count in the window now.',
    labels: { window: WINDOWS },
  },
  quota_remaining: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'Requests that are left in the window now.',
    labels: { window: WINDOWS },
  },
  quota_share: { kind: 'gauge', perWorkspace: true, isFresh: true, help: 'Our share of the workspace quota, 0 to 1.' },
  quota_paused_seconds: {
    kind: 'gauge',
    perWorkspace: true,
    isFresh: true,
    help: 'How long the quota still stops all requests; 0 when running.',
  },

  gateway_requests_total: {
    kind: 'counter',
    help: 'Requests at the gateway; refused is 429 from us.',
    labels: { outcome: ['cached', 'passed', 'refused', 'failed'] },
  },

  spans_dropped_total: {
    kind: 'counter',
    help: 'Spans of traces that were not exported, by reason.',
    labels: { reason: ['queue_full', 'not_exported', 'refused'] },
  },
  http_requests_total: {
    kind: 'counter',
    help: 'Outgoing HTTP requests by status, or by error code where no answer came.',
    labels: { target: null, status: null },
  },
  http_request_seconds: {
    kind: 'histogram',
    help: 'Time of an outgoing HTTP request.',
    labels: { target: null },
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30],
  },

  config_fault: {
    kind: 'gauge',
    help: '1 while the configuration cannot be reloaded and the last good one stays in use; else 0.',
  },
  database_bytes: { kind: 'gauge', help: 'Size of the database.' },
  database_log_kept_bytes: {
    kind: 'gauge',
    help: 'Size of the write-ahead log while another program keeps it from being emptied, else 0.',
  },
  disk_full: { kind: 'gauge', help: '1 while the data volume is full, else 0.' },
};

export interface MetricsOptions {
  readonly version: string;
  /**
   * Called with a name or label that the table does not have. That is an error of the caller: without this callback it is thrown,
   * as tests need; the daemon logs it instead, because a figure is not worth a failed request.
   */
  readonly onMisuse?: (error: Error) => void;
}

export interface Metrics {
  /** The meter of the process. */
  readonly meter: Meter;
  /** Returns the meter for the stages of one workspace, which adds the workspace's name to metrics per workspace. */
  forWorkspace(workspace: string): Meter;
  /** Drops the samples that each scrape sets again. */
  freshen(): void;
  /** Text for Prometheus. */
  /** @param workspaces names: the samples of these workspaces and no others; null: everything */
  expose(workspaces?: readonly string[] | null): Promise<string>;
  readonly contentType: string;
}

/** A registry of its own with the metrics of the table and those of the process. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: PREFIX });
  const made = createAll(registry);
  const metersOf = (workspace?: string) => createMeter(made, workspace, options.onMisuse ?? rethrow);
  const meter = metersOf();
  meter.gauge('build_info', 1, { version: options.version, node: process.versions.node });
  const freshen = () => {
    for (const gauge of made.fresh) gauge.reset();
  };
  return {
    meter,
    forWorkspace: metersOf,
    freshen,
    async expose(workspaces = null) {
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

/** All metrics of the table, by name. */
interface Made {
  readonly counters: ReadonlyMap<string, Pick<Counter, 'inc'>>;
  readonly gauges: ReadonlyMap<string, Pick<Gauge, 'set'> | FreshGauge>;
  readonly histograms: ReadonlyMap<string, Pick<Histogram, 'observe'>>;
  /** The gauges that each scrape sets again. */
  readonly fresh: readonly FreshGauge[];
}

function createMeter(made: Made, workspace: string | undefined, onMisuse: (error: Error) => void): Meter {
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

function createAll(registry: Registry): Made {
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
