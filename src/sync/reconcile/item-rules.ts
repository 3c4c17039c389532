import { createLinkRules, type LinkRules, type LinkRulesInput } from './link-rules/link-rules.ts';
import { createTriage, type Triage, type TriageInput } from './triage.ts';

/** The rules of one workspace, compiled. */
export interface Rules {
  readonly links: LinkRules;
  readonly triage: Triage;
  /** Whether documents that an item names are attached to its task. */
  readonly documents: boolean;
  /** Identifies them: when it changes, open items are re-evaluated. Absent: they never are. */
  readonly digest?: string;
}

export interface RulesInput extends LinkRulesInput, TriageInput {
  readonly documents: boolean;
  readonly digest?: string;
}

export function createRules(input: RulesInput): Rules {
  const { documents, digest } = input;
  return { links: createLinkRules(input), triage: createTriage(input), documents, digest };
}

/** What holds where nothing is configured. */
export const PLAIN_RULES: Rules = createRules({
  trailers: ['Task'],
  links: [],
  addresses: [],
  grammars: [],
  triage: [],
  users: {},
  documents: false,
});
