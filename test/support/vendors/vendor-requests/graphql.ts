import { type GraphQLSchema, getOperationAST, getVariableValues, parse, validate } from 'graphql';
import { z } from 'zod';

/** A request of GraphQL whose text the schema knows, with variables of the kinds that it declares. */
export function graphqlBody(schema: GraphQLSchema): z.ZodType {
  const envelope = z.strictObject({ query: z.string(), variables: z.record(z.string(), z.unknown()) });
  return envelope.superRefine(({ query, variables }, context) => {
    const document = parse(query);
    const problems = validate(schema, document).map(({ message }) => message);
    const declared = getOperationAST(document)?.variableDefinitions ?? [];
    const { errors = [] } = problems.length === 0 ? getVariableValues(schema, declared, variables) : {};
    const names = declared.map(({ variable }) => variable.name.value);
    const strays = Object.keys(variables).filter((name) => !names.includes(name));
    for (const message of [...problems, ...errors.map((error) => error.message), ...strays.map(undeclared)])
      context.addIssue({ code: 'custom', message });
  });
}

function undeclared(name: string): string {
  return `the variable ${name} is declared nowhere`;
}
