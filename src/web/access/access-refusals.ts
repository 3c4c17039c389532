/** Why a caller is refused: a stable code, the status, and what to do about it. */
export const REFUSALS = {
  unauthorized: {
    status: 401,
    message:
      'This needs a credential: send "Authorization: Bearer <token>" with the admin token or a read token. To log a browser in, open the link that "worksync login" prints.',
  },
  no_gateway_token: {
    status: 401,
    message:
      'This needs a gateway token: send "Authorization: Bearer <token>". "worksync gateway token create --description <purpose>" makes one.',
  },
  no_replica: {
    status: 401,
    message: 'Only another replica of this installation may ask this, and its signature must be right.',
  },
  too_many: {
    status: 429,
    message:
      'Too many wrong tokens came from this address. Try again later; a link of "worksync login" works meanwhile.',
  },
  read_only: { status: 403, message: 'This credential may read only. To change something, use the admin token.' },
  limited: {
    status: 403,
    message: 'This credential is limited to some workspaces, and this request concerns another.',
  },
  foreign_host: {
    status: 403,
    message:
      'The daemon does not know the name it was asked under. If the name is yours, give it with --allowed-hosts; programs send a token.',
  },
  foreign_origin: {
    status: 403,
    message:
      'This does not come from a page of this daemon (Origin and Host differ). Behind a proxy that ends TLS, name the proxy with --trusted-proxies and let it pass Host and X-Forwarded-Proto on.',
  },
  insecure: {
    status: 403,
    message:
      'Others could read your credential: this connection is plain HTTP from another machine. Open the pages over HTTPS, with the proxy named by --trusted-proxies, or on this machine. Where the network is safe, start the daemon with --insecure-pages.',
  },
  stale_page: { status: 403, message: 'The page is out of date. Reload it and repeat what you did.' },
  spent_link: {
    status: 401,
    message: 'This link was used already, or is older than ten minutes. "worksync login" prints a new one.',
  },
  wrong_token: { status: 401, message: 'There is no such token.' },
  unsupported_type: {
    status: 415,
    message: 'The body has the wrong type: send application/json.',
  },
} as const satisfies Record<string, { readonly status: number; readonly message: string }>;

export type Refusal = keyof typeof REFUSALS;
