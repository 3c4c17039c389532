/** The start of all header names that are the service's own (W5, W65); a server may have another one. */
export const HEADER_PREFIX = 'X-Service-';

/** The header that names the version of the API. */
export function versionHeaderOf(prefix: string): string {
  return `${prefix}Api-Version`;
}

/** Headers of a webhook delivery, in lower case (W65). */
export function webhookHeadersOf(
  prefix: string,
): Record<'eventId' | 'eventType' | 'retry' | 'key' | 'signature', string> {
  const lower = prefix.toLowerCase();
  return {
    eventId: `${lower}event-id`,
    eventType: `${lower}event-type`,
    retry: `${lower}retry-num`,
    key: `${lower}webhook-key`,
    signature: `${lower}signature`,
  };
}
