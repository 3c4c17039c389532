import { isPrivateHost } from '../../platform/http/private-ranges.ts';
import { invalid } from '../http/api-error.ts';

/** Which addresses may be subscribed. What their names resolve to is checked once more when they are called. Throws 400. */
export function checkWebhookTarget(url: string, allowPrivate: boolean): void {
  const { username, password } = new URL(url);
  if (username !== '' || password !== '') throw invalid('url: must hold no user name and no password');
  if (!allowPrivate && isPrivateHost(url)) throw invalid('url: must not lead to a private address');
}
