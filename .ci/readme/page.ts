const FENCE_OR_CODE = /```(\w*)\n([\s\S]*?)```|`([^`]+)`/g;
const PROGRAM = /^(?:npm|npx|docker) /;

/**
 * Commands of README, in the order of the page: the lines of `sh` blocks, and inline code, or quoted text of a `text` block, that
 * begins with npm, npx or docker. A command that the page names twice is in the list twice.
 */
export function commandsIn(readme: string): readonly string[] {
  return [...readme.matchAll(FENCE_OR_CODE)].flatMap(([, language, block = '', code]) => {
    if (code !== undefined) return [code.replace(/\s+/g, ' ')].filter((each) => PROGRAM.test(each));
    if (language === 'sh') return block.split('\n').map(withoutComment).filter(Boolean);
    return Array.from(block.matchAll(/"([^"\n]+)"/g), ([, quoted = '']) => quoted).filter((each) => PROGRAM.test(each));
  });
}

function withoutComment(line: string): string {
  return line.replace(/(?:^|\s)#.*$/, '').trim();
}

/** The output of the first start, as README shows it. */
export function firstStartIn(readme: string): string {
  const [, text] = /```text\n(worksync runs\.[\s\S]*?)```/.exec(readme) ?? [];
  if (text === undefined) throw new Error('README shows no output of `npm start`');
  return comparable(text);
}

/** A second start of the demo sends the same deliveries again: README says that it takes 0 requests. */
export function secondStartIn(readme: string): string {
  return firstStartIn(readme)
    .replace(/ \d+ of them new/, ' 0 of them new')
    .replace(/took \d+ requests/, 'took 0 requests');
}

/** Printed text without what differs from start to start: the secret of the log-in link, and a port in the place of 8080. */
export function comparable(text: string, port = 8080): string {
  return text
    .replaceAll(/(\/login\?link=)[\w…-]+/g, '$1…')
    .replaceAll(`http://127.0.0.1:${port}/`, 'http://127.0.0.1:8080/')
    .trim();
}
