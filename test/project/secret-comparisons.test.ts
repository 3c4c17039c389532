import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Flow, flowOf, type Scope, type Source } from '../support/source/secret-flow.ts';
import { bare, isNode, type Node, nameOf } from '../support/source/syntax.ts';

/** Methods and functions that end earlier the sooner two values differ, or that look one up by the other. */
const COMPARES =
  /^(?:includes|indexOf|lastIndexOf|startsWith|endsWith|localeCompare|equals|compare|equal|strictEqual|deepEqual|deepStrictEqual|isDeepStrictEqual|is|has|get|search|where|matches)$/;
const SIGNS = /^(?:[!=]==?|[<>]=?|in)$/;

/** Places of the sources, with their file, that compare a secret in another way than `isSameSecret` does. */
function comparisonsOfSecrets(sources: readonly Source[]): readonly string[] {
  const flow = flowOf(sources);
  const found = new Set<string>();
  flow.visit((node, scope, { file, text }) => {
    const compared = sidesOf(node, scope, flow);
    const isOfSecret = compared.length > 1 && compared.some((side) => flow.isSecret(side, scope));
    const isWithConstant = compared.some((side) => isLength(side) || (isConstant(side) && !flow.isSecret(side, scope)));
    const place = `${file}: ${text.slice(node.start, node.end).replaceAll(/\s+/g, ' ')}`;
    if ((isOfSecret && !isWithConstant) || isMadeOfSecret(node, scope, flow)) found.add(place);
  });
  return [...found].toSorted();
}

/** Returns the two sides that a node compares; nothing if it compares nothing. */
function sidesOf(node: Node, scope: Scope, flow: Flow): readonly Node[] {
  if (node.type === 'BinaryExpression')
    return SIGNS.test(String(node['operator'])) ? [node['left'] as Node, node['right'] as Node] : [];
  if (node.type === 'SwitchStatement') {
    const tests = (node['cases'] as Node[]).map((each) => each['test']).filter(isNode);
    return [node['discriminant'] as Node, ...tests.filter((test) => !isConstant(test))];
  }
  if (node.type !== 'CallExpression') return [];
  const callee = bare(node['callee'] as Node);
  if (!COMPARES.test(nameOf(callee)) || flow.isOwn(callee, scope)) return [];
  const given = node['arguments'] as Node[];
  // With more it is a request.
  if (/^(?:get|has)$/.test(nameOf(callee)) && given.length > 1) return [];
  // A column and a sign come before what rows are compared with. Of a digest no beginning tells anything.
  if (nameOf(callee) === 'where')
    return given.slice(-1).flatMap((each) => (nameOf(each) === 'digest' ? [] : [each, each]));
  // `Buffer.compare(one, other)` compares what it is given, `one.equals(other)` also what it is called on.
  const isOn = callee.type === 'MemberExpression' && given.length === 1;
  return isOn ? [callee['object'] as Node, ...given] : given;
}

/** A pattern, or a key of a table. */
function isMadeOfSecret(node: Node, scope: Scope, flow: Flow): boolean {
  if (node.type === 'MemberExpression')
    return (
      node['computed'] === true &&
      flow.isSecret(node['property'] as Node, scope) &&
      !isConstant(node['property'] as Node)
    );
  const isPattern = /^(?:New|Call)Expression$/.test(node.type) && nameOf(bare(node['callee'] as Node)) === 'RegExp';
  return isPattern && (node['arguments'] as Node[]).some((each) => flow.isSecret(each, scope));
}

function isLength(given: Node): boolean {
  return /^(?:length|byteLength|size)$/.test(nameOf(bare(given)));
}

/** Whether something is there, of which kind it is, or what stands in the sources anyway. */
function isConstant(given: Node): boolean {
  const node = bare(given);
  if (node.type === 'TemplateLiteral') return (node['expressions'] as Node[]).length === 0;
  if (node.type === 'Identifier') return /^(?:undefined|[A-Z][A-Z0-9_]+)$/.test(nameOf(node));
  return node.type === 'Literal' || node.type === 'UnaryExpression';
}

/**
 * A comparison that ends at the first difference reveals a secret to a caller who may try often. So only `isSameSecret` compares
 * values that prove an identity.
 */
const SOURCES = globSync('src/**/*.ts')
  .toSorted()
  .map((file) => ({ file, text: readFileSync(file, 'utf8') }));

/** Where the only comparison in constant time is. */
const COMPARISON = 'src/platform/lib/same-secret.ts';

/** Comparisons of such values by which nobody can learn one, and why. */
const NO_PROOF: Readonly<Record<string, string>> = {
  'src/cli/api-key-file.ts: secret.startsWith(prefix)': 'our own file, and the beginning that the workspace shows',
  'src/cli/backfill.ts: text === told': 'a line of text, and the one before',
  'src/cli/demo-play.ts: secrets.includes(secret)': 'what this process made up itself',
  'src/cli/key-rotation.ts: apiKeyId !== rotation.oldKeyId': 'ids of keys',
  'src/cli/key-rotation.ts: description === rotation.description': 'descriptions of keys',
  'src/cli/key-rotation.ts: key.apiKeyId === apiKeyId': 'ids of keys',
  'src/cli/run.ts: secrets.includes(demoSecret)': 'what this process made up itself',
  'src/platform/config/load.ts: taken.get(same)': 'the keys of two files of the configuration are the same',
  'src/platform/config/tokens.ts: other.secret === secret': 'two tokens of the configuration are the same',
  'src/connectors/gitlab/check.ts: path.toLowerCase() !== name.toLowerCase()': 'names of projects',
  'src/connectors/kit/check.ts: present.toLowerCase() !== name.toLowerCase()': 'names of places',
  'src/connectors/kit/pages.ts: next === present': 'the name of a page of a list',
  'src/connectors/kit/scope.ts: token === character': 'a sign of a pattern',
  'src/daemon/partition.ts: (await readMeta(store.query, KEY_DIGEST)) === digest': 'our own key, as at the last start',
  'src/sync/intake/grants.ts: access !== refusedToken': 'our own token, which a vendor refused',
  'src/sync/intake/grants.ts: cached?.access === token': 'our own token, which a vendor refused',
  'src/sync/intake/poll-walk.ts: state.digest === digest': 'a page of a list',
  'src/platform/observe/scrubber.ts: known.has(secret)': 'secrets of the configuration, of which each is kept once',
  'src/admin/lab.ts: lookedBy === digestOf(rules, idPrefixes)': 'the rules of the configuration',
  'src/sync/reconcile/reevaluate.ts: (await rulesEvaluatedBy(query)) === digest': 'the rules of the configuration',
  'src/sync/reconcile/reevaluate.ts: progressOf === digest': 'the rules of the configuration',
  'src/sync/reconcile/workflow/evaluate-task.ts: stored === id': 'the rules of the configuration',
  'src/sync/reconcile/reevaluate.ts: digest !== done': 'the rules of the configuration',
  'src/sync/reconcile/poison-messages.ts: (await readMeta(store.query, TRIED_BY)) !== version':
    'the version of this program',
  'src/cluster/signature.ts: until.has(nonce)': 'the signature was found right before',
  "src/store/server-capabilities.ts: ((await readMeta(query, CONFIGURED)) ?? '') !== value":
    'an option of the configuration',
  'src/store/redeliveries.ts: (await redeliveryCursor(query, connection)) !== cursor': 'a place in a list',
  'src/store/server-facts.ts: (await readMeta(query, ADDRESS)) === baseUrl': 'the address of the workspace',
  'src/web/login-routes.ts: REFUSALS[code]': 'why a login is refused',
  'src/web/pages/live-updates.ts: sent.get(part.id) === digest': 'a part of a page',
  'src/web/token-callers.ts: token.digest === digest':
    'the digest of a token, whose beginning tells nothing of the token',
  'src/reference-service/access/caller-rights.ts: known.get(digest)': 'the digest of a key, likewise',
  "src/reference-service/http/etag.ts: given.trim().replace(/^W\\//, '') === etag": 'the validator of an answer',
  'src/reference-service/keys/open-secret-box.ts: digest !== known': 'our own key, as at the last start',
  'src/workspace-api/webhook-signature.ts: headers[name]': 'the name of a header',
};

const foundIn = (...texts: readonly string[]) =>
  comparisonsOfSecrets(texts.map((text, index) => ({ file: `src/${index}.ts`, text }))).length;

describe('in the sources', () => {
  it('nothing that proves who somebody is is compared sign by sign [A2]', () => {
    expect(comparisonsOfSecrets(SOURCES)).toEqual(Object.keys(NO_PROOF).toSorted());
  });

  it('one function compares in constant time, of whatever length both are', () => {
    const owners = SOURCES.filter(({ text }) => text.includes('timingSafeEqual')).map(({ file }) => file);
    expect(owners).toEqual([COMPARISON]);
  });

  it.each([
    ['under another name', 'const wanted = secret; export const isIn = (given) => given === wanted;'],
    ['taken apart', 'export function isIn({ secret: wanted }, given) { return wanted == given; }'],
    ['with a default', 'export function isIn(given, { apiKey: wanted = "" } = {}) { return wanted != given; }'],
    ['of a header', "export const isIn = (headers, wanted) => headers['x-hub-signature-256'] === wanted;"],
    [
      'of a header that is asked for',
      "export const isIn = (headers, wanted) => headers.get('authorization') === wanted;",
    ],
    [
      'of a header by a function',
      "export const isIn = (request, wanted) => single(request, 'x-gitlab-token') === wanted;",
    ],
    ['as bytes', 'export const isIn = (given) => Buffer.from(secret).equals(given);'],
    [
      'as bytes, by another function',
      'export const isIn = (given) => Buffer.compare(given, Buffer.from(secret)) === 0;',
    ],
    ['cut', 'export const isIn = (given) => given === secret.slice(2).trim();'],
    ['in another text', 'export const isIn = (given) => given === `Bearer ${' + 'secret}`;'],
    ['among others', 'export const isIn = (given, secrets) => secrets.includes(given);'],
    ['one by one', 'export const isIn = (given, secrets) => secrets.some((each) => each === given);'],
    [
      'in a loop',
      'export function isIn(given, secrets) { for (const each of secrets) if (each === given) return true; }',
    ],
    [
      'sign by sign',
      'export function isIn(given) { for (let at = 0; at < 9; at++) if (given[at] !== secret[at]) return false; }',
    ],
    ['code by code', 'export const isIn = (given) => given.charCodeAt(0) !== secret.charCodeAt(0);'],
    ['as a beginning', 'export const isIn = (given) => given.startsWith(secret);'],
    ['in a set', 'const known = new Set(secrets); export const isIn = (given) => known.has(given);'],
    ['as a key', 'export const find = (callers, secret) => callers[secret];'],
    ['in a map', 'export const find = (callers, password) => callers.get(password);'],
    ['by order', 'export const isIn = (given) => given >= secret;'],
    ['by locale', 'export const isIn = (given) => given.localeCompare(secret) === 0;'],
    ['as a pattern', 'export const isIn = (given) => new RegExp(secret).test(given);'],
    ['as a case', 'export function isIn(given) { switch (given) { case secret: return true; } }'],
    ['as objects', 'export const isIn = (given) => isDeepStrictEqual({ a: 1 }, secret);'],
    ['in the database', "export const find = (query, secret) => query.where('text', '=', secret);"],
    ['in a field', 'export function isIn(given) { const own = { text: secret }; return own.text === given; }'],
    [
      'in a field of a class',
      'class A { #text; constructor(secret) { this.#text = secret; } isIn(given) { return this.#text === given; } }',
    ],
    [
      'what was made with it',
      "export const isIn = (body, given) => createHmac('sha256', key).update(body).digest('hex') === given;",
    ],
    [
      'what a function makes',
      'const made = (body) => hmacOf(body, key); export const isIn = async (given) => (await made(1)) === given;',
    ],
    [
      'by a function',
      'const same = (one, other) => one === other; export const isIn = (given) => same(given, secret);',
    ],
    ['given on', 'const same = (one, other) => one === other; const on = (a, b) => same(b, a); on(secret, 1);'],
    ['a constant of the file', 'const OWN = process.env.SECRET; export const isIn = (given) => OWN === given;'],
  ])('finds a comparison %s [A2]', (_way, text) => {
    expect(foundIn(text)).toBe(1);
  });

  it('finds one by a function of another file, whatever that calls what it is given', () => {
    const same = 'export function same(one, other) { return one === other; }';
    expect(
      foundIn(same, "import { same as is } from './0.ts'; export const isIn = (given) => is(given, secret);"),
    ).toBe(1);
    expect(foundIn(same, "import { same as is } from './0.ts'; export const isIn = (given) => is(given, 'a');")).toBe(
      0,
    );
  });

  it.each([
    ['whether it is there', 'export const isSet = (secret) => secret !== undefined && secret !== "";'],
    ['of which type it is', "export const isText = (secret) => typeof secret === 'string';"],
    ['how long it is', 'export const isLong = (secret, least) => secret.length >= least;'],
    ['what it begins with, where everybody knows', 'export const isKey = (secret) => secret.startsWith(KEY_PREFIX);'],
    ['its hash', "export const isIn = (given, wanted) => hash('sha256', given.secret) === wanted;"],
    ['in constant time', 'export const isIn = (given) => isSameSecret(given, secret) === true;'],
  ])('leaves alone who asks %s', (_what, text) => {
    expect(foundIn(text)).toBe(0);
  });
});
