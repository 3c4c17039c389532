import type { Finding } from '../connectors/connector.ts';

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
  const values = Object.values(options as Readonly<Record<string, unknown>>);
  const address = values.find(
    (value) => typeof value === 'string' && URL.parse(value)?.hostname.endsWith('.invalid') === true,
  );
  return address === undefined ? undefined : `takes webhooks only: ${String(address)} is an address without a server`;
}
