/** The report of readiness: names of components and stable reason codes, nothing else. */
interface HealthReport {
  readonly ready: boolean;
  /** Component → `ok`, or the reason why it is not. */
  readonly components: Readonly<Record<string, string>>;
}

export interface Health {
  /** @param reason stable code, for example of `model/errors/codes.ts`; needed if `ok` is false */
  set(component: string, ok: boolean, reason?: string): void;
  /** Returns true if at least one component has reported and all are well. */
  ready(): boolean;
  report(): HealthReport;
}

/** Readiness of the process. A component counts from its first report on. */
export function createHealth(): Health {
  const reasons = new Map<string, string>();
  const ready = () => reasons.size > 0 && [...reasons.values()].every((reason) => reason === 'ok');
  return {
    set: (component, ok, reason = 'failed') => void reasons.set(component, ok ? 'ok' : reason),
    ready,
    report: () => ({ ready: ready(), components: Object.fromEntries(reasons) }),
  };
}
