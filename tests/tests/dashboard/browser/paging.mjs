// Many instances: each page has its rows, comes fast, and leads on and back. The page does not grow.

import assert from 'node:assert/strict';
import { arrive, see, until } from './kit/actions.mjs';

const PAGES = 8;
/** What the browser may take for a page, besides the time of the API's answer: the emulator of a debug build is slow. */
const MOST_MS = 1_000;

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
    await on(page, number, ids);
    const whole = performance.now() - begun;
    const answer = await page.evaluate(() => performance.getEntriesByType('resource').filter(({ name }) => name.includes('/v1/instances?')).at(-1).duration);
    times.push({ whole, answer, own: whole - answer });
    for (const id of await ids()) {
      assert.ok(!seen.has(id), `${id} is on two pages`);
      seen.add(id);
    }
    assert.ok(await page.locator('main *').count() < 3_000, 'the page does not grow');
  }
  assert.equal(seen.size, 50 * PAGES);
  console.log(`        a page of ${stage.world.instances} instances: ${median(times, 'whole')} ms, of which the API takes ${median(times, 'answer')} ms`);
  assert.ok(median(times, 'own') < MOST_MS, JSON.stringify(times));

  await page.goBack();
  await on(page, PAGES - 1, ids);
  await page.getByRole('link', { name: 'Previous' }).first().click();
  await on(page, PAGES - 2, ids);
  await page.reload();
  await on(page, PAGES - 2, ids);
  await page.getByRole('link', { name: 'First page' }).first().click();
  await on(page, 1, ids);
  await page.getByRole('link', { name: /^Failed/ }).first().click();
  await until('only failed ones', async () => {
    const statuses = await results.locator('.badge').allInnerTexts();
    return page.url().includes('status=Failed') && statuses.length > 0 && statuses.every((status) => status.includes('Failed'));
  });

  // The overview counts all of them, and the two with long histories.
  await page.getByRole('link', { name: 'Overview' }).first().click();
  await see(page, (stage.world.instances - Math.ceil(stage.world.instances / 500) + 2).toLocaleString('en-GB'));
}

/** Waits for a full page of this number. */
async function on(page, number, ids) {
  await page.getByText(`Page ${number}`, { exact: true }).first().waitFor();
  assert.equal((await ids()).length, 50);
}

const median = (times, part) => Math.round(times.map((time) => time[part]).sort((a, b) => a - b)[Math.floor(times.length / 2)]);
