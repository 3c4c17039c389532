import { SyncError } from '../../errors/sync-error.ts';
import { malformed } from './refusal.ts';

/** The stored page of a walk, where the vendor gives pages names of this form. Throws `internal` for anything else. */
export function storedPage(page: string | undefined, form: RegExp): string | undefined {
  if (page === undefined || form.test(page)) return page;
  throw invalidPage(page);
}

/** For a stored page that worksync cannot have written. */
export function invalidPage(page: string): SyncError {
  return new SyncError('internal', `the stored page of a walk is invalid: ${page.slice(0, 40)}`);
}

/** The name of the page behind this one, which is sent back as it came. Throws `answer_malformed` for one that is none. */
export function nextPage(next: string | undefined | null, form: RegExp, present: string | undefined, what: string) {
  if (next === undefined || next === null || !form.test(next))
    throw malformed(`${what}: the next page has no usable name`);
  if (next === present) throw malformed(`${what}: a page names itself as its next page`);
  return next;
}

/** The elements of each page of a list, where every page names the next one. */
export async function* pagesOf<Element>(
  read: (
    page: string | undefined,
  ) => Promise<{ readonly found: readonly Element[]; readonly next: string | undefined }>,
): AsyncGenerator<readonly Element[]> {
  let page: string | undefined;
  do {
    const { found, next }: Awaited<ReturnType<typeof read>> = await read(page);
    yield found;
    page = next;
  } while (page !== undefined);
}
