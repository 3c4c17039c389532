import { type CheckedBody, LIMITS, type Routes } from '../../workspace-api/contract.ts';
import { ApiError, invalid } from '../http/api-error.ts';
import { placesOf } from './text-places.ts';

export type TextOperation = CheckedBody<Routes['patchDocument']>['ops'][number];

/**
 * Applies operations in order, each to the text that the ones before it have made (W43, W49).
 * Pure, and all or nothing: the text is returned only when every operation found its one place. Nothing but the
 * places named is touched: line ends stay as they are, and since texts are well-formed no surrogate pair is cut.
 * The running text may be longer than a document in between; only the result counts.
 *
 * Throws 409 `patch_target_not_found`, 409 `patch_target_ambiguous`, 400 for a result over 200 000 characters.
 */
export function applyOperations(text: string, operations: readonly TextOperation[]): string {
  const result = operations.reduce(applyOperation, text);
  if (result.length > LIMITS.text) throw invalid(`ops: the content would be over ${LIMITS.text} characters`);
  return result;
}

function applyOperation(text: string, operation: TextOperation, index: number): string {
  const place = 'target' in operation ? operation.target : operation.anchor;
  const start = onlyPlace(text, place, index);
  const end = start + place.length;
  switch (operation.kind) {
    case 'replace_text':
      return splice(text, start, end, operation.replacement);
    case 'delete_text':
      return splice(text, start, end, '');
    case 'insert_before':
      return splice(text, start, start, operation.text);
    case 'insert_after':
      return splice(text, end, end, operation.text);
  }
}

function splice(text: string, start: number, end: number, inserted: string): string {
  return text.slice(0, start) + inserted + text.slice(end);
}

function onlyPlace(text: string, place: string, index: number): number {
  const [first, second] = placesOf(text, place);
  if (first === undefined) throw new ApiError('patch_target_not_found', `ops.${index}: the text does not occur`);
  if (second === undefined) return first;
  throw new ApiError('patch_target_ambiguous', `ops.${index}: the text occurs more than once`);
}
