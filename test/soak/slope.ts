/** A straight line through points, by least squares: how steep it is, and how sure that is. */
export interface Slope {
  /** Units of y for one of x. */
  readonly value: number;
  /** Half of the interval that holds the true slope with a certainty of 95 %, as far as the points are independent. */
  readonly margin: number;
}

/** Throws for less than three points. */
export function slopeOf(points: readonly (readonly [x: number, y: number])[]): Slope {
  const count = points.length;
  if (count < 3) throw new Error('too few observations for a slope: let it run for longer');
  const mean = (at: 0 | 1) => points.reduce((sum, point) => sum + point[at], 0) / count;
  const [x, y] = [mean(0), mean(1)];
  const spread = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
  const value = points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0) / spread;
  const rest = points.reduce((sum, point) => sum + (point[1] - y - value * (point[0] - x)) ** 2, 0);
  return { value, margin: 2 * Math.sqrt(rest / (count - 2) / spread) };
}

/** Whether even the least slope that is credible is over the bound. */
export function isOver({ value, margin }: Slope, bound: number): boolean {
  return value - margin > bound;
}
