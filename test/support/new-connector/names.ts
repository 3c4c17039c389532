/** What a connector is called where; the keys are the words between underscores in the template. */
export interface Names {
  /** `azure-boards` */
  readonly id: string;
  /** In code: `azureBoards` */
  readonly name: string;
  /** For people: `Azure Boards` */
  readonly title: string;
  /** In names of headers: `Azure-Boards` */
  readonly Id: string;
  /** In variables: `AZURE_BOARDS` */
  readonly ENV: string;
  /** Before the numbers of its facts: `AZ` */
  readonly FACT: string;
}

const ID = /^[a-z][a-z0-9]{1,29}(?:-[a-z0-9]{1,30}){0,3}$/;

/** Undefined where this cannot be an id. */
export function namesOf(id: string): Names | undefined {
  if (!ID.test(id)) return undefined;
  const words = id.split('-').map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  const joined = words.join('');
  return {
    id,
    name: joined.charAt(0).toLowerCase() + joined.slice(1),
    title: words.join(' '),
    Id: words.join('-'),
    ENV: id.toUpperCase().replaceAll('-', '_'),
    FACT: id.slice(0, 2).toUpperCase(),
  };
}
