/** The first checks for people, by the reason why there was no connection. */
const REMEDIES: readonly (readonly [codes: RegExp, hint: string])[] = [
  [
    /^ENOTFOUND$/,
    'DNS knows no such name: correct the host name in the configuration, or the DNS of this machine. The request was not sent.',
  ],
  [
    /^EAI_/,
    'DNS does not answer: check the name servers of this machine or container, and its network. The request was not sent.',
  ],
  [
    /^ECONNREFUSED$/,
    'Nothing listens at this address: check host and port, and whether the server runs. The request was not sent.',
  ],
  [
    /^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT|E(HOST|NET)(UNREACH|DOWN)|EADDRNOTAVAIL)$/,
    'The network does not reach the server: check the route, and firewalls on the way. The request was not sent.',
  ],
  [
    /^CERT_HAS_EXPIRED$/,
    'The certificate of the server has expired: renew it there. If it has not, the clock of this machine is wrong.',
  ],
  [/^CERT_NOT_YET_VALID$/, 'The certificate of the server is not valid yet: the clock here or there is wrong.'],
  [
    /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?|CERT_UNTRUSTED)$/,
    'This machine does not trust the issuer of the certificate: start worksync with NODE_EXTRA_CA_CERTS=<file of the issuer>, or let the server send the whole chain.',
  ],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'The certificate is for another host name: configure the name that it is for, or give the server the right certificate.',
  ],
  [/^CERT_REVOKED$/, 'The issuer revoked the certificate of the server: give the server another one.'],
  [
    /^(EPROTO$|ERR_SSL_|ERR_TLS_)/,
    'Client and server agree on no TLS: check whether the address should begin with http:// or needs another port.',
  ],
];

/** Returns the remedy if there was no connection; undefined if the error needs no remedy of its own. */
export function unreachableHint(error: Error): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string') return undefined;
  return REMEDIES.find(([codes]) => codes.test(code))?.[1];
}
