import type { Finding } from '../../connectors/connector.ts';

/** Adds the host that answered to an error that names a path only. @param address of the server; undefined: the embedded service */
export function withHost(finding: Finding, address: string | undefined): Finding {
  const host = URL.parse(address ?? '')?.host;
  if (finding.level !== 'error' || !host || finding.message.includes(host)) return finding;
  return { ...finding, message: `${finding.message} (${host})` };
}

/**
 * Returns why a connection takes webhooks only: a host name among its options ends in `.invalid`, which no server has (RFC 6761).
 * The demo's connection has one, because its repositories are invented. Undefined if there is no such address.
 */
export function withoutServer(options: unknown): string | undefined {
  const texts = Object.values(options as Readonly<Record<string, unknown>>).filter(
    (value) => typeof value === 'string',
  );
  const address = texts.find((text) => URL.parse(text)?.hostname.endsWith('.invalid'));
  return address === undefined ? undefined : `takes webhooks only: ${address} is an address without a server`;
}
