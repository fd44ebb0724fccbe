// Chromium, and the packages from npm: they are not in a folder above this one, so `import` does not find them.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.NODE_PACKAGES, 'scenarios.js'));
const { chromium } = require('playwright-core');

/** Starts Chromium with an empty profile. Its own services must send nothing: every request is checked. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync',
    ],
  });
}

/** The text of axe-core, to be evaluated in a page. */
export const axe = () => readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
