// Components of the pages.
import { html, useEffect, useMemo, useRef, useState } from './html.js';
import { sort, sorter } from './sort.js';
import { moment, say } from './state.js';

export const time = (text) => {
  if (!text) return '';
  const date = new Date(/[Z+]|-\d\d:\d\d$/.test(text.slice(10)) ? text : `${text}Z`);
  return Number.isNaN(date.getTime()) ? text : date.toISOString().replace('T', ' ').replace(/\.\d+Z$/, '');
};
export const millis = (text) => new Date(/[Z+]/.test(text.slice(10)) ? text : `${text}Z`).getTime();
export const duration = (ms) => {
  if (!Number.isFinite(ms)) return '';
  if (ms < 1) return '0 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
};
export const short = (id) => (id && id.length > 20 ? `${id.slice(0, 8)}…` : id || '');

const TONES = {
  ACTIVE: 'good', active: 'good', available: 'good', 'in-use': 'good', up: 'good', enabled: 'good', done: 'good', ok: 'good', success: 'good', Success: 'good', completed: 'good', confirmed: 'good', finished: 'good',
  ERROR: 'bad', down: 'bad', failure: 'bad', failed: 'bad', Error: 'bad', error: 'bad', stuck: 'bad', failing: 'bad',
  BUILD: 'busy', creating: 'busy', deleting: 'busy', queued: 'busy', saving: 'busy', importing: 'busy', attaching: 'busy', detaching: 'busy', extending: 'busy', waits: 'busy', leaving: 'busy', cancelling: 'busy', left: 'good', stays: 'bad', incomplete: 'bad', cancelled: 'bad', REBOOT: 'busy', HARD_REBOOT: 'busy', RESIZE: 'busy', MIGRATING: 'busy', pending: 'busy', running: 'busy', draining: 'busy', disabled: 'busy', maintenance: 'busy',
};
export const Badge = ({ children }) => {
  const word = String(children ?? '');
  return html`<span class=${`badge ${TONES[word] || ''}`}>${word}</span>`;
};

/** A notice that screen readers announce. */
export const Notice = ({ bad, children }) => html`<div class=${bad ? 'notice bad' : 'notice'} role=${bad ? 'alert' : 'status'}>${children}</div>`;

/** Shows that a page loads, or why it could not load. Shows nothing after an answer, or if no server answers. */
export function Trouble({ load, what }) {
  const at = moment.use();
  const { error, data, busy } = load;
  if (error) {
    if (error.status === 404) {
      return html`<${Notice} bad>${at ? `There was no such ${what} at ${time(at)}.` : `No such ${what} was found.`}<//>`;
    }
    if (error.status === 403) return html`<${Notice} bad>Your roles do not allow this: ${error.message}<//>`;
    if (error.status === 0) return null;
    return html`<${Notice} bad>${error.message}${error.request && html` <small>(${error.request})</small>`}<//>`;
  }
  return busy && !data ? html`<p class="quiet" role="status">Loading…</p>` : null;
}

/** A button for an action. It is disabled in the past, and while its action runs. */
export function Act({ on, children, danger, sure, done, disabled, small }) {
  const at = moment.use();
  const [busy, setBusy] = useState(false);
  const act = async () => {
    if (sure && !(await confirmed(sure))) return;
    setBusy(true);
    try {
      await on();
      if (done) say(done);
    } catch (error) {
      say(error.message, true);
    } finally {
      setBusy(false);
    }
  };
  const why = at ? 'The past cannot be changed.' : undefined;
  return html`<button type="button" class=${`${danger ? 'danger' : ''} ${small ? 'small' : ''}`} title=${why}
    disabled=${Boolean(at) || busy || disabled} aria-busy=${busy} onClick=${act}>${children}</button>`;
}

/** Asks the viewer to confirm an action. Resolves to whether the viewer has confirmed it. */
function confirmed(question) {
  return new Promise((resolve) => {
    const dialog = document.createElement('dialog');
    dialog.setAttribute('aria-label', 'Confirm');
    const text = document.createElement('p');
    text.textContent = question;
    const yes = document.createElement('button');
    yes.textContent = 'Yes';
    yes.className = 'danger';
    yes.id = 'confirm-yes';
    const no = document.createElement('button');
    no.textContent = 'No';
    const row = document.createElement('div');
    row.className = 'row';
    row.append(yes, no);
    dialog.append(text, row);
    let answer = false;
    yes.onclick = () => { answer = true; dialog.close(); };
    no.onclick = () => dialog.close();
    dialog.onclose = () => { dialog.remove(); resolve(answer); };
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

/** The rows whose `text` (in lower case) has the filter. @param {any[]} rows @param {string} filter */
export function having(rows, filter) {
  const word = filter.toLowerCase();
  return word ? rows.filter((row) => row.text.includes(word)) : rows;
}

/** A labelled field of a form. */
export const Field = ({ label, hint, children }) => html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;

export const Choice = ({ value, onChange, options, ...rest }) => html`<select value=${value} onChange=${(event) => onChange(event.target.value)} ...${rest}>
  ${options.map((option) => {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    return html`<option value=${key} selected=${key === value}>${text}</option>`;
  })}
</select>`;

const ROW = 32;
/** The number of rendered rows on each side of the visible area. */
const SPARE = 12;

/** The longest list that is sorted at once. */
const AT_ONCE = 2000;
const NONE = /** @type {any[]} */ ([]);

/**
 * The rows in their order. While a long list is being sorted, its last order stays, and `busy` is true.
 * @param {any[]} rows @param {{name: string, value?: (row: any) => any}|undefined} column @param {boolean} down
 */
function useSorted(rows, column, down) {
  const value = column?.value;
  const long = Boolean(value) && rows.length > AT_ONCE;
  const [slow, setSlow] = useState({ of: NONE, name: '', down: false, rows: NONE });
  const quick = useMemo(() => (value && !long ? sort(rows, value, down) : rows), [rows, column?.name, down, long]);
  const want = useRef(/** @type {any} */ (null));
  want.current ||= sorter(setSlow);
  useEffect(() => {
    want.current(long ? { of: rows, name: column?.name || '', value, down } : null);
    if (!long) setSlow((old) => (old.rows === NONE ? old : { of: NONE, name: '', down: false, rows: NONE }));
  }, [rows, column?.name, down, long]);
  useEffect(() => () => want.current(null), []);
  if (!long) return { sorted: quick, busy: false };
  const busy = slow.of !== rows || slow.name !== column?.name || slow.down !== down;
  return { sorted: slow.rows === NONE ? rows : slow.rows, busy };
}

/**
 * A table that renders only the rows in and near the visible area, so that long lists stay fast.
 * `columns`: {name, title, show(row), value(row)?}; a column with `value` can be sorted.
 */
/** @param {any} props */
export function Table({ columns, rows, label, id = (row) => row.id, selected, onSelect, empty = 'Nothing is here.', rowClass, low, chosen }) {
  const box = useRef(null);
  const [range, setRange] = useState([0, 60]);
  const [order, setOrder] = useState({ name: '', down: false });
  const { sorted, busy } = useSorted(rows, columns.find((one) => one.name === order.name), order.down);
  const look = () => {
    const { scrollTop = 0, clientHeight = 600 } = box.current || {};
    const from = Math.max(0, Math.floor(scrollTop / ROW) - SPARE);
    const to = Math.ceil((scrollTop + clientHeight) / ROW) + SPARE;
    setRange((old) => (old[0] === from && old[1] === to ? old : [from, to]));
  };
  useEffect(look, [rows.length]);
  const [from, to] = [Math.min(range[0], Math.max(0, sorted.length - 1)), Math.min(range[1], sorted.length)];
  const shown = sorted.slice(from, to);
  const all = useMemo(() => rows.length > 0 && selected && rows.every((row) => selected.has(id(row))), [rows, selected]);
  const mark = (row, on) => {
    const next = new Set(selected);
    if (on) next.add(id(row)); else next.delete(id(row));
    onSelect(next);
  };
  return html`<div class=${low ? 'table short' : 'table'} ref=${box} onScroll=${look} tabindex="0" role="region" aria-label=${label}>
    <table aria-rowcount=${sorted.length + 1} aria-label=${label} aria-busy=${String(busy)}>
      <thead><tr aria-rowindex="1">
        ${selected && html`<th scope="col" class="tick"><input type="checkbox" aria-label="Select all" checked=${all}
          onChange=${(event) => onSelect(new Set(event.target.checked ? rows.map(id) : []))} /></th>`}
        ${columns.map((column) => html`<th scope="col" class=${column.right ? 'right' : undefined} aria-sort=${order.name === column.name ? (order.down ? 'descending' : 'ascending') : undefined}>
          ${column.value
            ? html`<button type="button" class="plain" onClick=${() => setOrder({ name: column.name, down: order.name === column.name && !order.down })}>
                ${column.title}${order.name === column.name ? (order.down ? ' ▾' : ' ▴') : ''}</button>`
            : column.title}</th>`)}
      </tr></thead>
      <tbody>
        ${from > 0 && html`<tr class="gap" aria-hidden="true" style=${{ height: `${from * ROW}px` }}></tr>`}
        ${shown.map((row, at) => html`<tr key=${id(row)} aria-rowindex=${from + at + 2} class=${`${rowClass?.(row) || ''} ${chosen !== undefined && chosen === id(row) ? 'chosen' : ''}`} data-id=${id(row)}>
          ${selected && html`<td class="tick"><input type="checkbox" aria-label=${`Select ${row.name || id(row)}`} checked=${selected.has(id(row))}
            onChange=${(event) => mark(row, event.target.checked)} /></td>`}
          ${columns.map((column) => html`<td class=${column.right ? 'right' : undefined}>${column.show(row)}</td>`)}
        </tr>`)}
        ${to < sorted.length && html`<tr class="gap" aria-hidden="true" style=${{ height: `${(sorted.length - to) * ROW}px` }}></tr>`}
        ${sorted.length === 0 && html`<tr><td colspan=${columns.length + (selected ? 1 : 0)} class="quiet">${empty}</td></tr>`}
      </tbody>
    </table>
  </div>`;
}

/** Names and values. */
export const Facts = ({ items }) => html`<dl class="facts">${items.filter(([, value]) => value !== undefined && value !== null && value !== '')
  .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

const percent = (used, total) => Math.max(0, Math.min(100, total ? (used / total) * 100 : 0));

/** A thin bar of the used part of a total. It is decoration: the numbers stand beside it. */
export const Gauge = ({ used, total, scarce }) => html`<span class=${scarce && percent(used, total) >= 90 ? 'gauge full' : 'gauge'} aria-hidden="true"><i style=${{ width: `${percent(used, total)}%` }}></i></span>`;

/** @type {[string, number][]} */
const SIZES = [['TiB', 1024 ** 4], ['GiB', 1024 ** 3], ['MiB', 1024 ** 2], ['KiB', 1024]];
/** Bytes in the largest unit that keeps the number at 1 or more. */
export const bytes = (count) => {
  if (count === null || count === undefined) return '';
  const [unit, size] = SIZES.find(([, factor]) => count >= factor) || ['B', 1];
  const value = count / size;
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${unit}`;
};
export const mebibytes = (count) => bytes(count * 1024 ** 2);
export const gibibytes = (count) => bytes(count * 1024 ** 3);

/** A bar of the used part of a total, with its numbers. `show` writes a number with its unit. */
export const Meter = ({ used, total, unit = '', label, show }) => html`<span class="meter" title=${label}><${Gauge} scarce used=${used} total=${total} />
  <span>${show ? show(used) : used} / ${show ? show(total) : total} ${unit}</span></span>`;

/** The numbers at the top of a page: [name, value, used and total of a bar]. */
export const Tiles = ({ items }) => html`<dl class="tiles">${items.filter(Boolean).map(([name, value, part]) => html`<div class="tile"><dt>${name}</dt><dd>${value}</dd>
  ${part && html`<${Gauge} used=${part[0]} total=${part[1]} />`}</div>`)}</dl>`;

/** Tabs: [name, title]. The panel stands below. Arrow keys move between the tabs. */
export function Tabs({ tabs, tab, onTab, label, children }) {
  const move = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex(([name]) => name === tab);
    const [next] = tabs[(at + step + tabs.length) % tabs.length];
    onTab(next);
    event.currentTarget.querySelector(`#tab-${next}`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>${tabs.map(([name, title]) => html`
      <button type="button" role="tab" id=${`tab-${name}`} aria-controls="panel" tabindex=${tab === name ? 0 : -1} aria-selected=${String(tab === name)} onClick=${() => onTab(name)}>${title}</button>`)}</div>
    <div id="panel" role="tabpanel" class="tabbed" aria-labelledby=${`tab-${tab}`}>${children}</div>`;
}
