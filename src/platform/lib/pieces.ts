/** Cuts a list into pieces of at most so many, in order. */
export function* piecesOf<Each>(all: readonly Each[], most: number): Generator<readonly Each[]> {
  for (let at = 0; at < all.length; at += most) yield all.slice(at, at + most);
}
