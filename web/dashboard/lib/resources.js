// Lists of resources: a filter, a table that marks the chosen resource, and a form that creates a resource.
import { html, useMemo, useState } from './html.js';
import { moment, say } from './state.js';
import { Act, Badge, Choice, Field, Notice, Table, Trouble, short, time } from './ui.js';
import { Name } from './who.js';

/** Columns that many lists have. */
export const NAME = (link) => ({ name: 'name', title: 'Name', value: (r) => r.name || r.id, show: (r) => (link ? html`<a href=${link(r)}>${r.name || short(r.id)}</a>` : r.name || html`<span class="quiet">(no name)</span>`) });
export const STATUS = { name: 'status', title: 'Status', value: (r) => r.status, show: (r) => html`<${Badge}>${r.status}<//>` };
export const ID = { name: 'id', title: 'Id', show: (r) => html`<span class="mono quiet" title=${r.id}>${short(r.id)}</span>` };
export const PROJECT = (key) => ({ name: 'project', title: 'Project', value: (r) => r[key], show: (r) => html`<${Name} kind="projects" id=${r[key]} />` });
export const created = (key) => ({ name: 'created', title: 'Created', value: (r) => r[key], show: (r) => time(r[key]) });
export const column = (name, title, value = (r) => r[name]) => ({ name, title, value, show: (r) => { const shown = value(r); return Array.isArray(shown) ? shown.join(', ') : shown; } });

/**
 * A list of one kind of resource.
 * @param {{load: any, what: string, columns: any[], act?: (row: any, reload: () => void) => any, low?: boolean, rows?: any[], chosen?: string, children?: any, bulk?: {name: string, on: (row: any) => Promise<any>, sure?: string}[]}} props
 */
export function Resources({ load, what, columns, act, low, rows = load.data || [], chosen, children, bulk }) {
  const [filter, setFilter] = useState('');
  const [selected, setSelected] = useState(new Set());
  const shown = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => columns.map((one) => (one.value ? one.value(row) : row[one.name])).concat(row.id, row.name).join(' ').toLowerCase();
    return words.length ? rows.filter((row) => { const all = text(row); return words.every((word) => all.includes(word)); }) : rows;
  }, [rows, filter, columns.length]);
  const last = act ? [{ name: 'actions', title: '', show: (row) => html`<span class="row">${act(row, load.reload)}</span>` }] : [];
  const picked = shown.filter((row) => selected.has(row.id));
  const all = (one) => async () => {
    const failures = [];
    for (const row of picked) await one.on(row).catch((error) => failures.push(error.message));
    setSelected(new Set());
    load.reload();
    if (failures.length) say(`${failures.length} of ${picked.length} were refused: ${failures[0]}`, true);
  };
  return html`<div class="row tools">
      <input type="search" class="filter" placeholder=${`Filter ${what}`} aria-label=${`Filter ${what}`} value=${filter} onInput=${(e) => setFilter(e.target.value)} />
      <span class="quiet num" aria-live="polite">${shown.length === rows.length ? `${rows.length} in all` : `${shown.length} of ${rows.length}`}</span>
      ${bulk?.map((one) => html`<${Act} small danger=${Boolean(one.sure)} disabled=${!picked.length} sure=${one.sure?.replace('%', String(picked.length))} on=${all(one)}>${one.name}<//>`)}
      ${children}
    </div>
    <${Trouble} load=${load} what=${what} />
    ${(load.data || rows.length > 0) && html`<${Table} label=${what} columns=${[...columns, ...last]} rows=${shown} low=${low} chosen=${chosen}
      selected=${bulk && new Set(picked.map((row) => row.id))} onSelect=${setSelected} empty=${filter ? 'Nothing fits the filter.' : `There are no ${what}.`} />`}`;
}

/**
 * A button that opens a form. Each of `fields` has a name, a label, and the form of the value (choices, type, hint,
 * required).
 * @param {{title: string, fields: any[], submit: (values: any) => Promise<any>, done?: string, wide?: boolean, start?: any}} props
 */
export function Create({ title, fields, submit, done, start = {} }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="primary" disabled=${Boolean(moment.use())} aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>${title}</button>
    ${open && html`<${Form} title=${title} fields=${fields} submit=${submit} done=${done} start=${start} close=${() => setOpen(false)} />`}`;
}

/** A form in a dialog. @param {any} props */
function Form({ title, fields, submit, done, start, close }) {
  const first = Object.fromEntries(fields.map((field) => [field.name, start[field.name] ?? field.value ?? (field.choices ? field.choices[0]?.[0] ?? '' : '')]));
  const [values, setValues] = useState(first);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const put = (name, value) => setValues((old) => ({ ...old, [name]: value }));
  const opened = (dialog) => { if (dialog && !dialog.open) dialog.showModal(); };
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError('');
    try {
      await submit(values);
      say(done || `${title}: accepted.`);
      close();
    } catch (failure) {
      setError(failure.message);
      setBusy(false);
    }
  };
  const input = (field) => {
    if (field.choices) return html`<${Choice} id=${`new-${field.name}`} value=${values[field.name]} onChange=${(value) => put(field.name, value)} options=${field.choices} />`;
    if (field.type === 'checkbox') return html`<input id=${`new-${field.name}`} type="checkbox" checked=${values[field.name]} onChange=${(e) => put(field.name, e.target.checked)} />`;
    if (field.type === 'file') return html`<input id=${`new-${field.name}`} type="file" required=${field.required} onChange=${(e) => put(field.name, e.target.files[0])} />`;
    return html`<input id=${`new-${field.name}`} type=${field.type || 'text'} min=${field.min} required=${field.required} value=${values[field.name]} onInput=${(e) => put(field.name, e.target.value)} />`;
  };
  return html`<dialog ref=${opened} onClose=${close} aria-label=${title}><form class="fields" onSubmit=${send}>
    ${error && html`<${Notice} bad>${error}<//>`}
    ${fields.map((field) => html`<${Field} key=${field.name} label=${field.label} hint=${field.hint}>${input(field)}<//>`)}
    <div class="row end"><button type="submit" class="primary" id="create" disabled=${busy} aria-busy=${busy}>${title}</button>
      <button type="button" onClick=${close}>Cancel</button></div>
  </form></dialog>`;
}

/** The button that deletes a row. */
export const Remove = ({ on, what, reload }) => html`<${Act} small danger sure=${`Delete ${what}?`} done=${`${what} is deleted.`} on=${() => on().then(reload)}>Delete<//>`;
