import type { Finding } from '../connectors/connector.ts';

/** Adds the host that answered to an error that names a path only. @param address of the server; undefined: the embedded service */
export function withHost(finding: Finding, address: string | undefined): Finding {
  const host = URL.parse(address ?? '')?.host;
  if (finding.level !== 'error' || !host || finding.message.includes(host)) return finding;
  return { ...finding, message: `${finding.message} (${host})` };
}
