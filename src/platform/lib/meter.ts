export type Labels = Readonly<Record<string, string>>;

/** Where stages report figures. `platform/observe/metrics.ts` declares the names, their help texts and their labels. */
export interface Meter {
  count(name: string, labels?: Labels, by?: number): void;
  gauge(name: string, value: number, labels?: Labels): void;
  /** Seconds or bytes, as the name's unit says. */
  observe(name: string, value: number, labels?: Labels): void;
}

export const silentMeter: Meter = { count() {}, gauge() {}, observe() {} };
