// Preact with htm: templates in plain JavaScript, so that the files need no build step.
import { h } from '../vendor/preact/preact.js';
import htm from '../vendor/htm/htm.js';

export { Fragment, createContext, render } from '../vendor/preact/preact.js';
export { useCallback, useEffect, useMemo, useRef, useState } from '../vendor/preact/hooks.js';
export const html = htm.bind(h);
