// Pictures of the screens, if they are wanted (UPDATE_SCREENSHOTS=1), and the outline of each screen, which tells whether they are current.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from './kit/actions.mjs';
import { THEMES, openScreen } from './kit/screens.mjs';

const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 360, height: 780 };
const QUALITY = 30;

export default async function scenario(stage) {
  const { screens, pictures, outline } = stage.world;
  const outlines = [];
  for (const colorScheme of THEMES) {
    const page = await stage.open(null, { colorScheme, viewport: WIDE, reducedMotion: 'reduce' });
    for (const screen of screens) {
      await openScreen(page, stage.world, screen);
      if (colorScheme === 'light') outlines.push(`# ${screen.name}\n${await settled(page)}`);
      if (pictures) await picture(page, join(pictures, `${screen.name}-${colorScheme}.webp`));
    }
  }
  if (pictures) {
    const page = await stage.open(null, { colorScheme: 'light', viewport: NARROW, reducedMotion: 'reduce', deviceScaleFactor: 2 });
    for (const screen of screens.filter(({ narrow }) => narrow)) {
      await openScreen(page, stage.world, screen);
      await picture(page, join(pictures, `${screen.name}-narrow.webp`));
    }
    await writeFile(outline, `${outlines.join('\n')}\n`);
  }
  assert.equal(
    `${outlines.join('\n')}\n`, await readFile(outline, 'utf8'),
    'a screen has changed: look at it, and make the pictures again with UPDATE_SCREENSHOTS=1 (docs/dashboard.md)',
  );
}

/** By the debugger, because Playwright itself makes no WebP. */
async function picture(page, path) {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  await session.detach();
  await writeFile(path, Buffer.from(data, 'base64'));
}

/** The outline, once it has stayed the same: parts of a screen load one after the other. */
async function settled(page) {
  let [before, now] = ['', await outlineOf(page)];
  while (before !== now) {
    await pause(700);
    [before, now] = [now, await outlineOf(page)];
  }
  return now;
}

/** What a screen consists of, without its data: headings, columns, fields, tabs and buttons. */
const outlineOf = (page) => page.evaluate(() => {
  const selector = 'h1, h2, h3, th, label, legend, nav a, button';
  const kinds = { H1: 'heading', H2: 'heading', H3: 'heading', TH: 'column', LABEL: 'field', LEGEND: 'field', A: 'link', BUTTON: 'button' };
  const lines = [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility()).map((one) => {
    const text = (one.getAttribute('aria-label') ?? one.innerText).replaceAll(/\s+/g, ' ').trim();
    // Ids and numbers are data.
    return `${kinds[one.tagName]} ${text.replaceAll(/\b(order|mail|rounds|invoice|import|tour)-\d+\b/g, 'ID').replaceAll(/\d[\d,.]*/g, 'N')}`;
  });
  return [...new Set(lines)].join('\n');
});
