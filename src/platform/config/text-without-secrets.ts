import { parseAllDocuments, visit } from 'yaml';
import { literalSecrets, SECRET_KEY } from './literal-secrets.ts';

/** Stands for a secret. In quotes it is a value wherever the secret was one. */
const VARIABLE = `"\${SECRET}"`;

/** A comment may hold a setting, such as a token that was in use before. */
const COMMENT = new RegExp(`(#.*?\\b\\w*(?:${SECRET_KEY.source})\\w*\\s*[:=]\\s*)\\S.*`, 'gi');

/**
 * Returns the text of the configuration of one workspace, with a variable for each secret that is written in it.
 *
 * @param source may hold several workspaces, as YAML documents
 */
export function textWithoutSecrets(source: string, workspace: string): string {
  const documents = [...parseAllDocuments(source)];
  // A text that leaves out the name holds nothing else. Of several documents none may be shown in place of another.
  const index = documents.length === 1 ? 0 : documents.findIndex((document) => document.get('name') === workspace);
  const document = documents[index];
  if (document === undefined || document.errors.length > 0) return '';
  const start = documents[index - 1]?.range[2] ?? 0;
  const secrets = new Set(literalSecrets(document.toJS()));
  let text = '';
  let from = start;
  visit(document, {
    Scalar(_key, { value, range }) {
      if (typeof value !== 'string' || !secrets.has(value) || /^\$\{\w+\}$/.test(value) || !range) return;
      const isBlock = value.includes('\n');
      text += source.slice(from, range[0]) + VARIABLE + (isBlock ? '\n' : '');
      from = range[1];
    },
  });
  return (text + source.slice(from, document.range[2])).replace(COMMENT, '$1…');
}
