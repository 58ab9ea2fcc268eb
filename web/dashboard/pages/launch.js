// The form for new servers.
import { html, useState } from '../lib/html.js';
import { get, list, post } from '../lib/api.js';
import { moment, say } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { Choice, Field, Notice, Trouble } from '../lib/ui.js';

const empty = (promise, otherwise) => promise.catch((error) => { if (error.status === 0) throw error; return otherwise; });

export default function Launch() {
  const at = moment.use();
  const load = useLoad(async (signal) => {
    const [images, flavors, networks, keys, zones] = await Promise.all([
      get('image/v2/images', { signal, query: { status: 'active', limit: 200, sort: 'name:asc' } }),
      list('compute/v2.1/flavors/detail', 'flavors', { signal, most: 1000 }),
      empty(get('network/v2.0/networks', { signal }), { networks: [] }),
      empty(get('compute/v2.1/os-keypairs', { signal }), { keypairs: [] }),
      empty(get('compute/v2.1/os-availability-zone', { signal }), { availabilityZoneInfo: [] }),
    ]);
    return {
      images: images.images, flavors, networks: networks.networks.filter((one) => !one['router:external']),
      keys: keys.keypairs.map((one) => one.keypair.name),
      zones: zones.availabilityZoneInfo.filter((one) => one.zoneState?.available).map((one) => one.zoneName),
    };
  }, ['launch']);
  const [form, setForm] = useState({ name: '', image: '', flavor: '', network: '', key: '', zone: '', count: '1', script: '' });
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const put = (name) => (event) => setForm({ ...form, [name]: event.target ? event.target.value : event });
  const { data } = load;
  if (!data) return html`<h1>Launch servers</h1><${Trouble} load=${load} what="choice" />`;
  const chosen = {
    image: form.image || data.images[0]?.id, flavor: form.flavor || data.flavors[0]?.id, network: form.network || data.networks[0]?.id || 'none',
  };
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError('');
    const count = Number(form.count) || 1;
    const server = {
      name: form.name, imageRef: chosen.image, flavorRef: chosen.flavor,
      networks: chosen.network === 'none' ? 'none' : [{ uuid: chosen.network }],
      ...(form.key && { key_name: form.key }), ...(form.zone && { availability_zone: form.zone }),
      ...(count > 1 && { min_count: count, max_count: count }),
      ...(form.script && { user_data: btoa(String.fromCharCode(...new TextEncoder().encode(form.script))) }),
    };
    try {
      const made = await post('compute/v2.1/servers', { server });
      say(count > 1 ? `${count} servers are being built.` : `${form.name} is being built.`);
      location.hash = count > 1 ? '#/servers' : `#/servers/${made.server.id}`;
    } catch (failure) {
      setError(failure.message);
    } finally {
      setBusy(false);
    }
  };
  const optional = (items) => [['', '(none)'], ...items.map((one) => [one, one])];
  const flavor = (one) => `${one.name}: ${one.vcpus} CPU, ${one.ram} MiB, ${one.disk} GiB`;
  return html`<div class="title"><h1>Launch servers</h1></div>
    <form class="sheet" onSubmit=${submit} aria-label="Launch servers">
      ${error && html`<${Notice} bad>${error}<//>`}
      ${data.images.length === 0 && html`<${Notice} bad>There is no image to launch from.<//>`}
      <${Field} label="Name"><input id="name" required maxlength="255" value=${form.name} onInput=${put('name')} /><//>
      <div class="fields">
      <${Field} label="Image"><${Choice} id="image" value=${chosen.image} onChange=${put('image')} options=${data.images.map((one) => [one.id, one.name || one.id])} /><//>
      <${Field} label="Flavor"><${Choice} id="flavor" value=${chosen.flavor} onChange=${put('flavor')} options=${data.flavors.map((one) => [one.id, flavor(one)])} /><//>
      <${Field} label="Network"><${Choice} id="network" value=${chosen.network} onChange=${put('network')} options=${[...data.networks.map((one) => [one.id, one.name || one.id]), ['none', '(none)']]} /><//>
      <${Field} label="Key pair"><${Choice} id="key" value=${form.key} onChange=${put('key')} options=${optional(data.keys)} /><//>
      <${Field} label="Availability zone"><${Choice} id="zone" value=${form.zone} onChange=${put('zone')} options=${optional(data.zones)} /><//>
      <${Field} label="Number of servers"><input id="number" type="number" min="1" max="1000" value=${form.count} onInput=${put('count')} /><//>
      </div>
      <${Field} label="User data" hint="A script or cloud-config for the guest."><textarea id="script" rows="3" value=${form.script} onInput=${put('script')}></textarea><//>
      <div class="row"><button type="submit" class="primary" id="launch" disabled=${busy || Boolean(at)} aria-busy=${busy}>Launch</button>
        <a class="button" href="#/servers">Cancel</a></div>
    </form>`;
}
