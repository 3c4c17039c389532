/** The meaning of methods and statuses in HTTP (RFC 9110). */

/** Whether a request with this method changes nothing (RFC 9110, section 9.2.1), of those that are used here. */
export function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Whether the request was carried out (RFC 9110, section 15.3). */
export function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299;
}
