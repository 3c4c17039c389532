import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { connectors } from '../../src/connectors/registry.ts';
import type { PullRequest, WorkItem } from '../../src/model/item.ts';
import type { Grammar } from '../../src/model/link.ts';
import { readAddress } from '../../src/sync/reconcile/link-rules/addresses.ts';
import { createLinkRules } from '../../src/sync/reconcile/link-rules/link-rules.ts';
import { namesOfItem, normalUrl } from '../../src/sync/reconcile/link-rules/lookup-names.ts';
import { intentOf } from '../../src/sync/reconcile/link-rules/scan.ts';
import { pull, workItem } from '../support/rows/items.ts';

/**
 * The section "Names" of each connector's page shows how people write the names of its items. Each example is read by the link
 * rules of a workspace with all connectors.
 */

/** The item that the examples of a page name. */
const ITEMS: Readonly<Record<string, Partial<WorkItem>>> = {
  'azure-boards': { host: 'org-1', identifier: '5', url: 'https://dev.azure.com/acme/Web%20Shop/_workitems/edit/5' },
  github: { containerName: 'acme/api', identifier: '#12', url: 'https://github.com/acme/api/issues/12' },
  gitlab: { containerName: 'group/project', identifier: '#4', url: 'https://gitlab.com/group/project/-/issues/4' },
  jira: { host: 'cloud-1', identifier: 'ENG-12', url: 'https://acme.atlassian.net/browse/ENG-12' },
  linear: { host: 'org-1', identifier: 'ENG-12', url: 'https://linear.app/acme/issue/ENG-12' },
  redmine: { host: 'redmine.example.com', identifier: '#12', url: 'https://redmine.example.com/issues/12' },
  sentry: { identifier: 'FRONT-END-1A', url: 'https://acme.sentry.io/issues/123' },
  shortcut: { identifier: 'sc-318', url: 'https://app.shortcut.com/acme/story/318' },
};

const vendors = connectors.flatMap(({ id, publicHost, grammar, capabilities }) => {
  const { host = publicHost } = ITEMS[id] ?? {};
  return grammar === undefined ? [] : [{ id, host, grammar, capabilities }];
});
const rules = createLinkRules({
  trailers: [],
  links: [],
  addresses: [],
  grammars: vendors.map(({ id, host, grammar }) => ({ connector: id, host, grammar })),
});

type Vendor = (typeof vendors)[number];

const pageOf = (id: string) => readFileSync(new URL(`../../src/connectors/${id}/README.md`, import.meta.url), 'utf8');
const sectionOf = (id: string) => /^## Names\n(.*?)^## /ms.exec(pageOf(id))?.[1] ?? '';
const quoted = (text: string) => Array.from(text.matchAll(/`([^`]+)`/g), ([, each = '']) => each);
const examplesOf = (id: string) =>
  Array.from(sectionOf(id).matchAll(/^\| (`.*`) +\| (.*?) +\|$/gm)).flatMap(([, texts = '', meaning = '']) =>
    quoted(texts).map((text) => ({ text, meaning })),
  );

function itemOf({ id, host }: Vendor): WorkItem {
  return workItem({ connector: id, host, key: `${id}:${host}:1`, containerId: '10', ...ITEMS[id] });
}

/** A pull request of this vendor, in the project of the item. */
function pullOf({ id, host }: Pick<Vendor, 'id' | 'host'>, text: string, isBranch: boolean): PullRequest {
  const fields = isBranch ? { headBranch: text } : { description: text };
  return pull({ connector: id, host, repoId: '10', url: `https://${host}/group/project/pull/1`, ...fields });
}

function meaningOf(item: WorkItem, named: PullRequest, reader: Vendor, grammar: Grammar): string {
  const own = new Set(namesOfItem(item, grammar));
  const mentions = rules
    .mentionsOf(named, { name: 'main', grammar: reader.grammar })
    .filter(({ name }) => own.has(name));
  const intents = mentions.map(({ words, rule }) =>
    intentOf(rule === 'item-url' ? { ...grammar, needsWord: false } : grammar, words),
  );
  if (intents.includes('closes')) return 'closes';
  return intents.includes('mentions') ? 'names' : 'nothing';
}

const forges = vendors.filter(({ capabilities }) => capabilities.pullRequests);
const forge = (id: string) => forges.find((each) => each.id === id) as Vendor;

describe.each(vendors.map((vendor) => [vendor.id, vendor] as const))('the page of %s', (id, vendor) => {
  const { grammar, host } = vendor;
  const examples = examplesOf(id);

  it('lists the words that close', () => {
    const listed = /^Words that close: (.*?)\./m.exec(sectionOf(id))?.[1] ?? '';
    expect(quoted(listed)).toEqual(grammar.closing);
  });

  it.each(examples)('says what $text means: $meaning', ({ text, meaning }) => {
    const isOwn = meaning.includes('its own');
    const readers = isOwn ? [forge(id)] : meaning === 'nothing' ? [forge('bitbucket')] : forges;
    for (const reader of readers) {
      const named = pullOf(reader, text, meaning.includes('branch'));
      expect({ from: reader.id, meaning: meaningOf(itemOf(vendor), named, reader, grammar) }).toEqual({
        from: reader.id,
        meaning: /^\w+/.exec(meaning)?.[0],
      });
    }
  });

  it('has an example of each address', () => {
    const addresses = examples.map(({ text }) => /https:.*/.exec(text)?.[0]).filter((each) => each !== undefined);
    for (const spelling of grammar.addresses?.flat() ?? []) {
      const only = { ...grammar, addresses: [[spelling]] };
      const isShown = addresses.some(
        (text) => readAddress(only, host, { url: normalUrl(text) ?? '', text }).length > 0,
      );
      expect({ spelling, isShown }).toEqual({ spelling, isShown: true });
    }
  });
});
