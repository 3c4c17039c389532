/** The words of a marker (`<!-- words -->`), for where a comment of HTML would be seen or lost. */
export function wordsOfMarker(marker: string): string {
  return marker.replace('<!--', '').replace('-->', '').trim();
}
