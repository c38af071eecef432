/** The roofline as one SVG: a panel for each build and number of threads. */
import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';

export interface Point {
  readonly type: string;
  readonly where: string;
  /** Multiply-adds per byte. */
  readonly intensity: number;
  readonly gmacs: number;
}

/** Ceilings in GB/s and GMAC/s, and the kernels below them. */
export interface Panel {
  readonly build: string;
  readonly threads: number;
  readonly bandwidth: { readonly [level: string]: number };
  readonly f32: number;
  readonly dot: number;
  readonly points: readonly Point[];
}

const X: [number, number] = [0.15, 160];
const COLOURS: { readonly [type: string]: string } = {
  q4_0: '#d1495b',
  q4_K: '#edae49',
  q6_K: '#66a182',
  q8_0: '#2e6f95',
  f16: '#8d6a9f',
  f32: '#5c5c5c',
};
const SYMBOLS = { GEMM: 'circle', 'GEMV, L2': 'triangle', 'GEMV, DRAM': 'diamond' } as const;
const WIDTH = 1120;
const FACET = 400;
const TOP = 96;
const LEFT = 58;
const RIGHT = 92;
const BOTTOM = 46;
const GAP_X = 0.2;
const GAP_Y = 0.06;
/**
 * Memory levels with a slope in the picture: those that weights come from. L1 and L3 are only in
 * the table.
 */
const LEVELS = ['L2', 'DRAM'];

export function draw(title: string, subtitle: string, panels: readonly Panel[]): string {
  const { document } = parseHTML('<!doctype html><html><body></body></html>');
  const facet = (p: Panel): { column: string; row: string } => ({
    column: p.threads === 1 ? '1 thread' : `${p.threads} threads`,
    row: `${p.build} build`,
  });
  const all = panels.flatMap((p) => [p.dot, ...p.points.map((x) => x.gmacs)]);
  const y: [number, number] = [Math.min(...all) / 1.6, Math.max(...all) * 1.9];
  const slopes = panels.flatMap((p) =>
    Object.entries(p.bandwidth)
      .filter(([level]) => LEVELS.includes(level))
      .flatMap(([level, gbs]) => {
        // From the left or lower edge up to the highest ceiling.
        const from = Math.max(X[0], y[0] / gbs);
        const to = Math.min(X[1], p.dot / gbs);
        return from < to ? [{ ...facet(p), level, gbs, x: from, y: from * gbs, x2: to, y2: to * gbs }] : [];
      }),
  );
  const flats = panels.flatMap((p) =>
    [
      { ...facet(p), name: '8-bit dot', gmacs: p.dot },
      { ...facet(p), name: 'f32', gmacs: p.f32 },
    ].map((f) => ({ ...f, x: Math.max(X[0], f.gmacs / p.bandwidth.L2) })),
  );
  // the first type is drawn last, above the others
  const points = panels.flatMap((p) => p.points.map((x) => ({ ...facet(p), ...x }))).reverse();
  const rows = new Set(points.map((p) => p.row)).size;
  const columns = new Set(points.map((p) => p.column)).size;
  const common = { fx: 'column', fy: 'row' } as const;
  const width = columns === 1 ? WIDTH / 1.6 : WIDTH;
  const height = rows * FACET + 40;
  /** Angle of a slope in a panel, which has the size of a d3 band. */
  const band = (size: number, n: number, gap: number): number => (size / (n - gap)) * (1 - gap);
  const steep =
    band(height - 30 - BOTTOM, rows, GAP_Y) / Math.log(y[1] / y[0]) / (band(width - LEFT - RIGHT, columns, GAP_X) / Math.log(X[1] / X[0]));
  const rotate = (-Math.atan(steep) * 180) / Math.PI;
  const titles = panels.map((p) => ({ ...facet(p), text: `${p.build} build, ${facet(p).column}` }));
  const svg = Plot.plot({
    document: document as unknown as Document,
    width,
    height,
    marginTop: 30,
    marginLeft: LEFT,
    marginRight: RIGHT,
    marginBottom: BOTTOM,
    style: { fontFamily: 'system-ui, sans-serif', fontSize: '12px', background: 'white', overflow: 'visible' },
    x: {
      type: 'log',
      base: 2,
      domain: X,
      label: 'MAC for each byte of weights, activations and results →',
      ticks: [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128],
      tickFormat: (d: number) => String(d),
      grid: true,
    },
    y: {
      type: 'log',
      domain: y,
      label: '↑ GMAC/s',
      ticks: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].filter((t) => t >= y[0] && t <= y[1]),
      tickFormat: (d: number) => String(d),
      grid: true,
    },
    fx: { axis: null, paddingInner: GAP_X, paddingOuter: 0 },
    fy: { axis: null, domain: [...new Set(titles.map((p) => p.row))], paddingInner: GAP_Y, paddingOuter: 0 },
    marks: [
      Plot.frame({ stroke: '#ccc' }),
      Plot.link(slopes, {
        ...common,
        x1: 'x',
        y1: 'y',
        x2: 'x2',
        y2: 'y2',
        stroke: '#333',
        strokeWidth: (d: { level: string }) => (d.level === 'DRAM' ? 2 : 1.2),
      }),
      ...(['8-bit dot', 'f32'] as const).map((name) =>
        Plot.link(
          flats.filter((f) => f.name === name),
          {
            ...common,
            x1: 'x',
            y1: 'gmacs',
            x2: () => X[1],
            y2: 'gmacs',
            stroke: '#333',
            strokeWidth: 2,
            strokeDasharray: name === 'f32' ? '5 3' : 'none',
          },
        ),
      ),
      // Along the slope, where it meets the roof, because few kernels come that far.
      ...LEVELS.map((level) =>
        Plot.text(
          slopes.filter((s) => s.level === level),
          {
            ...common,
            x: (d: { x2: number }) => d.x2 * 0.97,
            y: (d: { y2: number }) => d.y2 * 0.97,
            text: (d: { gbs: number }) => `${level} ${d.gbs.toFixed(d.gbs < 10 ? 1 : 0)} GB/s`,
            textAnchor: 'end',
            dx: -8,
            dy: -2,
            rotate,
            fill: '#333',
          },
        ),
      ),
      Plot.text(flats, {
        ...common,
        x: () => X[1],
        y: 'gmacs',
        text: (d: { name: string; gmacs: number }) => `${d.name} ${d.gmacs.toFixed(0)}`,
        textAnchor: 'start',
        dx: 6,
        fill: '#333',
      }),
      Plot.text(titles, { ...common, text: 'text', frameAnchor: 'top-right', dx: -8, dy: 8, fontWeight: 600, fontSize: 13 }),
      Plot.dot(points, {
        ...common,
        x: 'intensity',
        y: 'gmacs',
        fill: (d: Point) => COLOURS[d.type],
        stroke: 'white',
        strokeWidth: 0.8,
        r: 6,
        symbol: (d: Point) => SYMBOLS[d.where as keyof typeof SYMBOLS],
      }),
    ],
    symbol: { type: 'identity' } as unknown as Plot.ScaleOptions,
  });
  const chart = svg as unknown as Element;
  chart.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  chart.setAttribute('y', String(TOP));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + TOP}" viewBox="0 0 ${width} ${height + TOP}" font-family="system-ui, sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<text x="16" y="28" font-size="18" font-weight="600">${escape(title)}</text>
<text x="16" y="48" fill="#555">${escape(subtitle)}</text>
${legend()}
${chart.outerHTML}
</svg>
`;
}

const escape = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** A legend inside the picture; Plot's own legends are HTML. */
function legend(): string {
  const shapes: { readonly [where: string]: string } = {
    GEMM: '<circle r="5.5" fill="#555"/>',
    'GEMV, L2': '<path d="M0,-6L6,5H-6Z" fill="#555"/>',
    'GEMV, DRAM': '<path d="M0,-7L5,0L0,7L-5,0Z" fill="#555"/>',
  };
  const items = [
    ...Object.keys(SYMBOLS).map((where) => [shapes[where], where, 118] as const),
    ...Object.entries(COLOURS).map(
      ([type, colour]) => [`<rect x="-6" y="-6" width="12" height="12" rx="2" fill="${colour}"/>`, type, 64] as const,
    ),
  ];
  let x = 24;
  return items
    .map(([shape, name, width]) => {
      const item = `<g transform="translate(${x},72)">${shape}<text x="12" y="4.5">${name}</text></g>`;
      x += width;
      return item;
    })
    .join('\n');
}
