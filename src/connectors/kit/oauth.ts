import { z } from 'zod';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { AccessTokens } from '../connector.ts';
import { httpsAddress, oneWord } from './options.ts';

const word = oneWord(/^[\x21-\x7e]{1,8000}$/);

/** A grant of OAuth 2.0 as people configure it. */
export function oauthOption(tokenUrl: string) {
  return z
    .strictObject({
      clientId: word.describe("Client id of your app, as the vendor's console shows it."),
      clientSecret: word.describe("The app's client secret."),
      refreshToken: word.describe('The refresh token of your consent. After a new consent, put the new token here.'),
      tokenUrl: httpsAddress
        .default(tokenUrl)
        .describe('Address that renews tokens, where a proxy or a test stands in for it.'),
    })
    .optional();
}

/**
 * Sends with the present access token, and once more with a new one where the vendor refuses the first: vendors may end a
 * token before it expires.
 *
 * @param isRefused whether an answer says that the token is not valid
 */
export async function withAccessToken(
  tokens: AccessTokens,
  send: (token: string) => Promise<HttpAnswer>,
  isRefused: (answer: HttpAnswer) => boolean,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const token = await tokens.get(signal);
  const answer = await send(token);
  if (!isRefused(answer)) return answer;
  tokens.refused(token);
  return send(await tokens.get(signal));
}
