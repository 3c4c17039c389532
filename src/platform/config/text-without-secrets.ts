import { isScalar, parseAllDocuments, Scalar, visit } from 'yaml';
import { literalSecrets } from './literal-secrets.ts';

/** Stands for a secret. In quotes it is a value wherever the secret was one. */
const VARIABLE = `\${SECRET}`;

/**
 * Returns the text of the configuration of one workspace, with a variable for each secret that is written in it. Comments are
 * left out, because one may hold a setting, such as a token that was in use before.
 *
 * @param source may hold several workspaces, as YAML documents
 */
export function textWithoutSecrets(source: string, workspace: string): string {
  const documents = [...parseAllDocuments(source)];
  // A text that leaves out the name holds nothing else. Of several documents none may be shown in place of another.
  const index = documents.length === 1 ? 0 : documents.findIndex((document) => document.get('name') === workspace);
  const document = documents[index];
  if (document === undefined || document.errors.length > 0) return '';
  const secrets = new Set(literalSecrets(document.toJS()));
  const isSecret = (value: unknown) => typeof value === 'string' && secrets.has(value) && !/^\$\{\w+\}$/.test(value);
  document.comment = document.commentBefore = null;
  visit(document, {
    Node(_key, node) {
      node.comment = node.commentBefore = null;
      if (isScalar(node) && isSecret(node.value)) Object.assign(node, { value: VARIABLE, type: Scalar.QUOTE_DOUBLE });
    },
  });
  return document.toString({ lineWidth: 0 });
}
