// 100,000 instances: sixty pages forward and some back. Each page comes at once, and neither the page nor its memory grows.
//
// The list's answers are made here, as the API would give them: the emulator would take a minute for each. What a page costs the store is
// the same at any size (tests/invariants/search.rs).

import assert from 'node:assert/strict';
import { arrive } from './kit/actions.mjs';

const TOTAL = 100_000;
const PAGES = 60;
const ROWS = 100;
/** What a page may take in the middle, on a machine that does much else. */
const MOST_MS = 1_000;

export default async function scenario(stage) {
  const page = await stage.open(null);
  await page.route(/\/v1\/instances\?/, (route) => route.fulfill({ json: answer(new URL(route.request().url()).searchParams) }));
  await page.route(/\/v1\/counts$/, (route) => route.fulfill({ json: { total: TOTAL, counts: [{ name: 'report', status: 'Completed', count: TOTAL }] } }));
  await page.goto(`${stage.world.api}/#/instances?limit=${ROWS}`);
  await arrive(page, 'Instances');
  await page.getByText('Page 1', { exact: true }).first().waitFor();
  const walk = (link, count) => page.evaluate(async ([name, many]) => {
    const times = [];
    for (let walked = 0; walked < many; walked += 1) {
      const begun = performance.now();
      const before = document.querySelector('td.cell-id a').textContent;
      [...document.querySelectorAll('.pager a')].find((one) => one.textContent.includes(name)).click();
      while (document.querySelector('td.cell-id a').textContent === before) await new Promise(requestAnimationFrame);
      times.push(performance.now() - begun);
    }
    return times.sort((a, b) => a - b);
  }, [link, count]);
  const memory = async () => {
    await page.requestGC();
    return (await page.evaluate(() => performance.memory.usedJSHeapSize)) / 1e6;
  };

  await walk('Next', 20);
  const [elements, megabytes] = [await page.locator('*').count(), await memory()];
  const times = await walk('Next', PAGES - 21);
  await page.getByText(`Page ${PAGES}`, { exact: true }).first().waitFor();
  const first = await page.locator('td.cell-id a').first().innerText();
  assert.equal(first, `job-${TOTAL - (PAGES - 1) * ROWS}`);
  const grown = (await memory()) - megabytes;
  console.log(`        a page of ${ROWS} of ${TOTAL}: ${Math.round(times[times.length >> 1])} ms, at most ${Math.round(times.at(-1))} ms; ${grown.toFixed(1)} MB more after ${PAGES} pages`);
  assert.ok(times[times.length >> 1] < MOST_MS, `${times.map(Math.round)}`);
  assert.ok(Math.abs(await page.locator('*').count() - elements) < 100, 'the page does not grow');
  assert.ok(grown < 20, `${grown} MB`);
  await walk('Previous', 10);
  await page.getByText(`Page ${PAGES - 10}`, { exact: true }).first().waitFor();
}

/** A page of the list, newest first; the cursor is the number of the next instance. */
function answer(query) {
  const from = Number(query.get('cursor') ?? TOTAL);
  const limit = Number(query.get('limit') ?? 20);
  const at = (number) => new Date(Date.UTC(2026, 0, 1) + number * 1000).toISOString();
  const instances = Array.from({ length: Math.min(limit, from) }, (_, index) => from - index).map((number) => ({
    instance: `job-${number}`, orchestration: 'report', version: '1.0.0', status: 'Completed', customStatus: 'done', customStatusVersion: 1,
    execution: 1, events: 12, createdAt: at(number), updatedAt: at(number + 4), startedAt: at(number), completedAt: at(number + 4),
    durationMs: 4000, tags: { customer: `c-${number % 100}` },
  }));
  return { instances, nextCursor: from > limit ? String(from - limit) : undefined };
}
