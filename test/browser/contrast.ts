/** The used part of the browser's API, for which the tests are not compiled. */
interface PageElement {
  readonly childNodes: Iterable<{ readonly nodeType: number; readonly textContent: string | null }>;
  readonly parentElement: PageElement | null;
}
declare const document: { querySelectorAll(selector: string): Iterable<PageElement> };
declare function getComputedStyle(
  element: PageElement,
): Readonly<Record<'color' | 'backgroundColor' | 'fontSize' | 'fontWeight', string>>;

/** Text of the page whose contrast with its background is too low, as WCAG 2.2 AA counts it. Runs in the page. */
export function lowContrasts(): string[] {
  type Color = readonly [number, number, number, number];

  function parse(text: string): Color {
    const [r = 0, g = 0, b = 0, a = 1] = (/\(([^)]+)\)/.exec(text)?.[1] ?? '').split(/[ ,/]+/).map(Number);
    return [r, g, b, a];
  }
  function luminance([r, g, b]: Color): number {
    const [x = 0, y = 0, z = 0] = [r, g, b].map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  }
  function backgroundOf(element: PageElement | null): Color {
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color[3] > 0) return color;
    }
    return [255, 255, 255, 1];
  }

  const found: string[] = [];
  for (const element of document.querySelectorAll('body *')) {
    const text = [...element.childNodes].flatMap((node) =>
      node.nodeType === 3 ? (node.textContent ?? '').trim() : [],
    );
    if (text.join('') === '') continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(parse(style.color)), luminance(backgroundOf(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = Number.parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${text.join(' ')}`);
  }
  return found;
}
