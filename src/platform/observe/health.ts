export type Health = ReturnType<typeof createHealth>;

/** Readiness of the process. A component counts from its first report on. */
export function createHealth() {
  const reasons = new Map<string, string>();
  const ready = () => reasons.size > 0 && [...reasons.values()].every((reason) => reason === 'ok');
  return {
    /** @param reason stable code, for example of `model/errors.ts`; needed if `ok` is false */
    set: (component: string, ok: boolean, reason = 'failed') => void reasons.set(component, ok ? 'ok' : reason),
    /** Returns true if at least one component has reported and all are well. */
    ready,
    /** Returns names of components, each with `ok` or the code of the reason why it is not, and nothing else. */
    report: () => ({ ready: ready(), components: Object.fromEntries(reasons) }),
  };
}
