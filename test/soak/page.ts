/** What a soak has found, as it stands in `test/soak.md`. A table begins with its head. */
export function soakPage(
  command: string,
  course: readonly (readonly string[])[],
  verdict: readonly (readonly string[])[],
): string {
  return `# What grows in a long life of one process

Written by \`${command}\`: a daemon of its own process takes deliveries of four vendors over HTTP and writes what they change to a
workspace service; an hour of its time passes in a minute. It keeps bodies for half an hour and deliveries for an hour.

${tableOf(verdict)}

## Its course

${tableOf(course)}
`;
}

function tableOf([head = [], ...rows]: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
