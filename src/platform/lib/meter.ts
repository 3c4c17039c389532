export type Labels = Readonly<Record<string, string>>;

/** Receives the figures of stages. `platform/observe/metrics.ts` declares the names, their help texts and their labels. */
export interface Meter {
  count(name: string, labels?: Labels, by?: number): void;
  gauge(name: string, value: number, labels?: Labels): void;
  /** Records a value in the unit of the name: seconds or bytes. */
  observe(name: string, value: number, labels?: Labels): void;
}

export const silentMeter: Meter = { count() {}, gauge() {}, observe() {} };
