// Shows a user or project by name, if the viewer may see it.
import { html, useEffect, useState } from './html.js';
import { nameOf } from './events.js';

export function Name({ kind, id }) {
  const [name, setName] = useState(id);
  useEffect(() => {
    let here = true;
    nameOf(kind, id).then((found) => here && setName(found));
    return () => { here = false; };
  }, [kind, id]);
  return html`<span title=${id}>${name}</span>`;
}

/** The initiator of an event. */
export const Who = ({ event }) => (event.cause?.user
  ? html`<${Name} kind="users" id=${event.cause.user} />`
  : html`<span class="quiet">${event.cause?.system || (event.cause?.process ? 'its process' : '')}</span>`);
