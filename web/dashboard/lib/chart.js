// A chart of time series (uPlot). Its caption has the newest values, for readers who do not see the lines.
import { html, useEffect, useRef } from './html.js';
import { sheet } from './sheet.js';
import uPlot from '../vendor/uplot/uplot.js';

/** uPlot's types are not part of its module. */
const Plot = /** @type {any} */ (uPlot);
const HEIGHT = 150;
/** The colours of the lines, in the order of the series. */
const COLOURS = ['--bar', '--bad', '--busy'];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The newest value that is known. @param {(number|null)[]} values */
const newest = (values) => values.findLast((value) => value !== null);
const written = (value) => (value === undefined || value === null ? '–' : value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(value < 1 ? 2 : 1));

/**
 * `times`: seconds; `series`: {label, unit, values}, with null where nothing is known.
 * @param {{title: string, times: number[], series: {label: string, unit?: string, values: (number|null)[]}[]}} props
 */
export function Chart({ title, times, series }) {
  const box = useRef(/** @type {any} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const data = [times, ...series.map((one) => one.values)];
  useEffect(() => {
    sheet('vendor/uplot/uplot.css');
    const axis = { stroke: () => colour('--quiet'), grid: { stroke: () => colour('--line'), width: 1 }, ticks: { show: false } };
    const lines = series.map((one, at) => ({ label: one.label, stroke: () => colour(COLOURS[at]), width: 1.5, points: { show: false } }));
    const options = {
      width: Math.max(200, box.current.clientWidth), height: HEIGHT, legend: { show: false }, cursor: { show: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.1)] } },
      // The times of the axis are UTC, like all times in the pages.
      axes: [{ ...axis, size: 26, space: 70, values: (_, marks) => marks.map((at) => new Date(at * 1000).toISOString().slice(11, 19)) }, { ...axis, size: 48 }], series: [{}, ...lines],
    };
    plot.current = new Plot(options, data, box.current);
    const fit = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, box.current.clientWidth), height: HEIGHT }));
    fit.observe(box.current);
    return () => {
      fit.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [times]);
  return html`<figure class="chart" aria-label=${title}><figcaption><b>${title}</b> ${series.map((one, at) => html`<span class=${`line line-${at}`}>${one.label} ${written(newest(one.values))} ${one.unit || ''}</span>${' '}`)}</figcaption>
    <div class="lines" ref=${box} aria-hidden="true"></div></figure>`;
}
