import type { Labels } from '../lib/meter.ts';

/**
 * A gauge of which each scrape sets all samples anew. Those of thousands of workspaces are kept as the text that is served:
 * as objects of the library they would cost several times as much, most of it to collect them as garbage.
 */
export class FreshGauge {
  readonly #name: string;
  readonly #help: string;
  readonly #labels: readonly string[];
  /** Values by the text of their labels. */
  readonly #samples = new Map<string, number>();

  /** @param labels names, in the order in which they are told */
  constructor(name: string, help: string, labels: readonly string[]) {
    this.#name = name;
    this.#help = help;
    this.#labels = labels;
  }

  set(labels: Labels, value: number): void {
    const told = this.#labels.map((label) => `${label}="${escaped(labels[label] ?? '')}"`);
    this.#samples.set(told.length === 0 ? '' : `{${told.join()}}`, value);
  }

  reset(): void {
    this.#samples.clear();
  }

  /** In the text format of Prometheus (its documentation, "Exposition formats"), without the line break at its end. */
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
