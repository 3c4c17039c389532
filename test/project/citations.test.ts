import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

/** Names of the rules or facts that a page defines, in order: each begins a point of a list, as `- **W38**`. */
function namesOf(page: string): string[] {
  return Array.from(page.matchAll(/^- \*\*([A-Z]{1,2}\d+)\*\*/gm), ([, name]) => name!);
}

const TOP = join(import.meta.dirname, '../..');
const FILES = ['src', 'config', 'test'].flatMap((folder) =>
  readdirSync(join(TOP, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(ts|md|json|ya?ml)$/.test(path) && !path.startsWith('fixtures'))
    .map((path) => `${folder}/${path}`),
);

const CONTRACT = 'src/workspace-api/contract.md';
const CONNECTORS = 'src/connectors/';
/** Folders of connectors that speak with no vendor. */
const OWN = ['generic', 'kit'];
const VENDORS = readdirSync(join(TOP, CONNECTORS), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !OWN.includes(entry.name))
  .map(({ name }) => `${CONNECTORS}${name}/README.md`);

/** Pages that others cite, each with the names that it defines. */
const PAGES = new Map([CONTRACT, ...VENDORS].map((page) => [page, namesOf(read(page))]));

/** How names of rules and facts are written, and what else is written so. */
const NAME = /\b(?:W\d+|[A-Z]{2}\d{1,2})\b/g;
const NO_NAMES = ['LZ4', 'RE2'];

/** A part of a document that is not here, unless the document is a standard and is named. */
const ELSEWHERE = /(?<!\bRFC \d+,? )(?:§ ?\d|\b[Ss]ections? \d)|\bG\d{1,2}\b/;

function read(path: string): string {
  return readFileSync(join(TOP, path), 'utf8');
}

function linesOf(path: string): { path: string; place: string; text: string }[] {
  return read(path)
    .split('\n')
    .map((text, at) => ({ path, place: `${path}:${at + 1}`, text }));
}

const CITED = FILES.flatMap(linesOf).flatMap(({ path, place, text }) =>
  Array.from(text.matchAll(NAME), ([name]) => ({ path, place, name })).filter(({ name }) => !NO_NAMES.includes(name)),
);

/** A vendor's folder cites the contract and its own page, every other place whatever page has the name. */
function isDefined(name: string, path: string): boolean {
  const page = [...PAGES.keys()].find((each) => PAGES.get(each)!.includes(name));
  const own = VENDORS.find((each) => path.startsWith(`${dirname(each)}/`));
  return page !== undefined && (own === undefined || [CONTRACT, own].includes(page));
}

describe('a citation', () => {
  it('by a name has what it names, in the contract or among the facts of its folder', () => {
    expect(CITED.length).toBeGreaterThan([...PAGES.values()].flat().length);
    expect(CITED.filter(({ path, name }) => !isDefined(name, path))).toEqual([]);
  });

  it('of a page names one that is here', () => {
    const places = FILES.flatMap(linesOf)
      .filter(({ text }) => ELSEWHERE.test(text))
      .map(({ place }) => place);
    expect(places).toEqual([]);
  });
});

describe.each([...PAGES])('%s', (page, names) => {
  it('numbers what it defines without a gap, each name once and on no other page', () => {
    const letters = names[0]?.replace(/\d+/, '');
    const others = [...PAGES].filter(([other]) => other !== page).flatMap(([, defined]) => defined);
    expect(names.toSorted(byNumber)).toEqual(names.map((_, at) => `${letters}${at + 1}`));
    expect(names.filter((name) => others.includes(name))).toEqual([]);
    expect(names.length).toBeGreaterThan(0);
  });
});

describe('the contract', () => {
  it('states the origin of each rule', () => {
    const unmarked = pointsOf(read(CONTRACT)).filter(
      (point) => !/^- \*\*W\d+\*\* _(?:specified|public|chosen|extension)_:/.test(point),
    );
    expect(unmarked).toEqual([]);
  });

  it('has a test for each rule, whose title begins with the name of the rule', () => {
    const titles = /(?:^\s*|\()['"`]((?:W\d+,? )+)/gm;
    const proved = FILES.filter((path) => path.startsWith('test/') && path.endsWith('.ts')).flatMap((path) =>
      Array.from(read(path).matchAll(titles), ([, names]) => names!.match(NAME)!),
    );
    expect(PAGES.get(CONTRACT)!.filter((rule) => !proved.flat().includes(rule))).toEqual([]);
  });
});

describe.each(VENDORS)('%s', (page) => {
  it('says of each fact where it stands, and the month in which it was looked up', () => {
    const source = /\((?:\[[^\]]+\]\(https:\/\/[^)\s]+\), )+20\d\d-(?:0[1-9]|1[0-2])\)$/;
    expect(pointsOf(read(page)).filter((point) => !source.test(point))).toEqual([]);
  });

  it('has no fact on which no code relies', () => {
    const used = CITED.filter(({ path }) => path.startsWith(`${dirname(page)}/`) && path.endsWith('.ts'));
    expect(PAGES.get(page)!.filter((name) => !used.some((cited) => cited.name === name))).toEqual([]);
  });
});

/** The points of a page that define something, each on one line. */
function pointsOf(page: string): string[] {
  return Array.from(page.matchAll(/^- \*\*[A-Z]{1,2}\d+\*\*.*(?:\n {2}\S.*)*/gm), ([point]) =>
    point.replace(/\n\s+/g, ' '),
  );
}

function byNumber(one: string, other: string): number {
  return Number(one.replace(/\D/g, '')) - Number(other.replace(/\D/g, ''));
}
