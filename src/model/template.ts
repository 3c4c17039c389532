/** Variables that the title of a task may hold, as `{name}`. */
export const TEMPLATE_VARIABLES = [
  'title',
  'identifier',
  'project',
  'type',
  'priority',
  'status',
  'author',
  'connector',
] as const;

export type TemplateVariable = (typeof TEMPLATE_VARIABLES)[number];

/** The pieces of a template: texts, and variables by name. Undefined where a variable is not known. */
export function parseTemplate(template: string): readonly (string | { readonly name: TemplateVariable })[] | undefined {
  const pieces = template.split(/(\{[^{}]*\})/).map((piece) => {
    if (!piece.startsWith('{') || !piece.endsWith('}')) return piece;
    const name = TEMPLATE_VARIABLES.find((variable) => variable === piece.slice(1, -1).trim());
    return name === undefined ? undefined : { name };
  });
  return pieces.includes(undefined) ? undefined : (pieces as (string | { name: TemplateVariable })[]);
}

export function fillTemplate(template: string, values: Readonly<Record<TemplateVariable, string>>): string {
  return (parseTemplate(template) ?? [])
    .map((piece) => (typeof piece === 'string' ? piece : values[piece.name]))
    .join('');
}
