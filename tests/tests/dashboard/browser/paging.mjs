// Many instances: each page has its rows, comes fast, and leads on and back. The page does not grow.

import assert from 'node:assert/strict';
import { arrive, see, until } from './kit/actions.mjs';

const PAGES = 12;
/** What a page may take on a slow machine: the emulator answers from a debug build. */
const MOST_MS = 3_000;

export default async function scenario(stage) {
  const page = await stage.open('#/instances');
  await arrive(page, 'Instances');
  const results = page.getByRole('region', { name: 'Results' });
  const ids = () => results.locator('td.cell-id a').allInnerTexts();
  await until('the first page is full', async () => (await ids()).length === 50);
  const seen = new Set(await ids());
  const times = [];
  for (let number = 2; number <= PAGES; number += 1) {
    const begun = performance.now();
    await page.getByRole('link', { name: 'Next' }).first().click();
    await see(page, `Page ${number}, 50 instances`);
    times.push(performance.now() - begun);
    for (const id of await ids()) {
      assert.ok(!seen.has(id), `${id} is on two pages`);
      seen.add(id);
    }
    assert.ok(await page.locator('main *').count() < 3_000, 'the page does not grow');
  }
  assert.ok(Math.max(...times) < MOST_MS, `${times.map(Math.round)}`);
  assert.equal(seen.size, 50 * PAGES);
  console.log(`        a page of ${stage.world.instances} instances: ${median(times)} ms, at most ${Math.round(Math.max(...times))} ms`);

  await page.goBack();
  await see(page, `Page ${PAGES - 1}, 50 instances`);
  await page.getByRole('link', { name: 'Previous' }).first().click();
  await see(page, `Page ${PAGES - 2}, 50 instances`);
  await page.reload();
  await see(page, `Page ${PAGES - 2}, 50 instances`);
  await page.getByRole('link', { name: 'First page' }).first().click();
  await see(page, 'Page 1, 50 instances');
  await page.getByRole('link', { name: /^Failed/ }).first().click();
  await until('only failed ones', async () => {
    const statuses = await results.locator('.badge').allInnerTexts();
    return page.url().includes('status=Failed') && statuses.length > 0 && statuses.every((status) => status.includes('Failed'));
  });

  // The overview counts all of them.
  await page.getByRole('link', { name: 'Overview' }).first().click();
  await see(page, (stage.world.instances - Math.ceil(stage.world.instances / 500)).toLocaleString('en-GB'));
}

const median = (times) => Math.round([...times].sort((a, b) => a - b)[Math.floor(times.length / 2)]);
