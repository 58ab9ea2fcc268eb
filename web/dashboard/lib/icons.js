// Line icons of 16 by 16 units, drawn for this menu. They are only decoration, because a text stands beside each icon.
import { html } from './html.js';

const PATHS = {
  brand: 'M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13M8 4.5V8l2.6 1.7',
  servers: 'M2 3h12v4H2zM2 9h12v4H2zM4.5 5h.01M4.5 11h.01',
  fleet: 'M3 13.5v-11h10v11M1.5 13.5h13M6 5h1M9 5h1M6 8h1M9 8h1M7 13.5v-3h2v3',
  scheduler: 'M2 2.5h12L9.5 8v5l-3 1V8z',
  placement: 'M8 1.8l6 3.1v6.2l-6 3.1l-6-3.1V4.9zM2 4.9l6 3.1l6-3.1M8 8v6.2',
  processes: 'M13.5 8A5.5 5.5 0 1 1 11.6 3.8M13.5 2v3h-3',
  audit: 'M4 1.5h6l3 3v10H4zM6.5 7h4M6.5 9.5h4M6.5 12h2.5',
  compare: 'M5 2v12M11 2v12M2 5h3M2 8h3M11 8h3M11 11h3',
  images: 'M8 2a6 6 0 1 0 0 12a6 6 0 0 0 0-12M8 6.5a1.5 1.5 0 1 0 0 3a1.5 1.5 0 0 0 0-3',
  volumes: 'M2.5 4c0-3 11-3 11 0v8c0 3-11 3-11 0zM2.5 4c0 3 11 3 11 0M2.5 8c0 3 11 3 11 0',
  networks: 'M8 2.5v4M8 6.5H3.5v3M8 6.5h4.5v3M6.5 1.5h3v2h-3zM2 10h3v3H2zM11 10h3v3h-3z',
  flavors: 'M3 2v12M8 2v12M13 2v12M1.5 5h3M6.5 10h3M11.5 6.5h3',
  quotas: 'M2 12a6 6 0 1 1 12 0M8 12l3-4',
  projects: 'M6 3a2.3 2.3 0 1 0 0 4.6A2.3 2.3 0 0 0 6 3M1.8 13.5c0-5 8.4-5 8.4 0M10.5 3.5a2 2 0 0 1 0 3.8M12 9.5c1.5.6 2.2 2 2.2 4',
  health: 'M1.5 8.5h3l2-5l3 9l2-4h3',
};

/** @param {{name: string}} props */
export const Icon = ({ name }) => html`<svg viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"><path d=${PATHS[name] || ''} /></svg>`;
