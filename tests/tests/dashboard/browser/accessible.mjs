// axe-core finds nothing serious on any screen: in light and dark, wide and narrow.

import assert from 'node:assert/strict';
import { axe } from './kit/browser.mjs';
import { openScreen } from './kit/screens.mjs';

const WIDE = { width: 1280, height: 900 };
const LOOKS = [
  { colorScheme: 'light', viewport: WIDE }, { colorScheme: 'dark', viewport: WIDE }, { colorScheme: 'light', viewport: { width: 360, height: 780 } },
];

export default async function scenario(stage) {
  const found = [];
  for (const look of LOOKS) {
    const page = await stage.open(null, { ...look, reducedMotion: 'reduce' });
    for (const screen of stage.world.screens) {
      await openScreen(page, stage.world, screen);
      const where = `${screen.name}, ${look.colorScheme}, ${look.viewport.width} px`;
      for (const text of await problems(page)) found.push(`${where}: ${text}`);
      // No sideways scrolling of the whole page.
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wider > 0) found.push(`${where}: ${wider} px too wide`);
    }
  }
  assert.deepEqual(found, []);
}

/** What axe-core finds. It is evaluated by the debugger, so the policy of the page does not matter. */
async function problems(page) {
  await page.evaluate(axe());
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document));
  assert.ok(passes.length > 10, 'axe-core has looked');
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, help, nodes }) => {
    const places = nodes.slice(0, 3).map(({ target, failureSummary }) => `${target.join(' ')}: ${failureSummary?.replaceAll('\n', ' ')}`);
    return `${id} (${help}) ${places.join('; ')}`;
  });
}
