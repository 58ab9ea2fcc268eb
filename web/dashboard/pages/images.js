// Images: the list, an upload, and one image with its properties.
import { html } from '../lib/html.js';
import { get, post, remove, send } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Act, Facts, bytes, time } from '../lib/ui.js';
import { Create, ID, NAME, PROJECT, Remove, Resources, STATUS, column, created } from '../lib/resources.js';

/** All images that the viewer may see, read page by page. */
async function images(signal) {
  const all = [];
  let marker;
  for (;;) {
    const body = await get('image/v2/images', { signal, query: { limit: 500, sort: 'name:asc', marker } });
    all.push(...body.images);
    if (!body.next || body.images.length === 0) return all;
    marker = body.images[body.images.length - 1].id;
  }
}

const COLUMNS = [
  NAME((r) => `#/images?image=${r.id}`), STATUS, column('visibility', 'Visibility'),
  { name: 'size', title: 'Size', right: true, value: (r) => r.size ?? 0, show: (r) => bytes(r.size) },
  column('disk_format', 'Format'), PROJECT('owner'), created('created_at'), ID,
];

async function upload(values) {
  const image = await post('image/v2/images', { name: values.name, disk_format: values.format, container_format: 'bare', visibility: values.visibility });
  try {
    await send('PUT', `image/v2/images/${image.id}/file`, { raw: values.file, patience: 3_600_000 });
  } catch (error) {
    await remove(`image/v2/images/${image.id}`).catch(() => {});
    throw error;
  }
}

const FIELDS = [
  { name: 'name', label: 'Name', required: true },
  { name: 'format', label: 'Format', choices: [['qcow2', 'qcow2'], ['raw', 'raw'], ['iso', 'iso']] },
  { name: 'visibility', label: 'Visibility', choices: [['private', 'private'], ['shared', 'shared'], ['community', 'community'], ['public', 'public']] },
  { name: 'file', label: 'File', type: 'file', required: true },
];

/** The attributes that are not listed as properties. */
const KNOWN = new Set(['name', 'disk_format', 'container_format', 'visibility', 'size', 'virtual_size', 'status', 'checksum', 'protected', 'min_ram', 'min_disk', 'owner',
  'os_hidden', 'os_hash_algo', 'os_hash_value', 'id', 'created_at', 'updated_at', 'tags', 'self', 'file', 'schema']);

const One = ({ image }) => html`<section class="sheet" aria-label=${`Image ${image.name}`} id="chosen"><h2>${image.name || image.id}</h2><${Facts} items=${[
  ['Id', html`<span class="mono">${image.id}</span>`], ['Virtual size', bytes(image.virtual_size)], ['Smallest disk', image.min_disk ? `${image.min_disk} GiB` : ''], ['Smallest memory', image.min_ram ? `${image.min_ram} MiB` : ''],
  ['Protected', image.protected ? 'yes' : 'no'], ['Changed', time(image.updated_at)], [image.os_hash_algo, image.os_hash_value && html`<span class="mono">${image.os_hash_value.slice(0, 32)}…</span>`],
  ['Tags', (image.tags || []).join(', ')],
  ...Object.entries(image).filter(([key]) => !KNOWN.has(key)).map(([key, value]) => [key, String(value)]),
]} /></section>`;

export default function Images({ query }) {
  const load = useLoad(images, ['images'], { every: 10_000 });
  const chosen = load.data?.find((one) => one.id === query.get('image'));
  const act = (row, reload) => html`
    ${row.status === 'active' && html`<${Act} small on=${() => post(`image/v2/images/${row.id}/actions/deactivate`).then(reload)}>Deactivate<//>`}
    ${row.status === 'deactivated' && html`<${Act} small on=${() => post(`image/v2/images/${row.id}/actions/reactivate`).then(reload)}>Reactivate<//>`}
    ${!row.protected && html`<${Remove} what=${`image ${row.name || row.id}`} on=${() => remove(`image/v2/images/${row.id}`)} reload=${reload} />`}`;
  return html`<div class="title"><h1>Images</h1><${Create} title="Upload an image" fields=${FIELDS} submit=${(values) => upload(values).then(load.reload)} /></div>
    <${Resources} load=${load} what="images" columns=${COLUMNS} act=${act} chosen=${chosen?.id} low=${Boolean(chosen)} />
    ${chosen && html`<${One} image=${chosen} />`}`;
}
