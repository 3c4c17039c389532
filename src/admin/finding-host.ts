import type { Finding } from '../connectors/connector.ts';

/** Adds the host that answered to an error that names a path only. @param address of the server; undefined: the embedded service */
export function withHost(finding: Finding, address: string | undefined): Finding {
  const host = URL.parse(address ?? '')?.host;
  if (finding.level !== 'error' || !host || finding.message.includes(host)) return finding;
  return { ...finding, message: `${finding.message} (${host})` };
}

/**
 * Returns the address among the options whose host name ends in `.invalid`, which no server has (RFC 6761). The demo's connection
 * has one, because its repositories are invented.
 */
export function addressWithoutServer(options: unknown): string | undefined {
  const values = Object.values(options as Readonly<Record<string, unknown>>).filter(
    (value) => typeof value === 'string',
  );
  return values.find((value) => URL.parse(value)?.hostname.endsWith('.invalid'));
}
